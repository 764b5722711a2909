package config

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// ServerTLSConfig is how a server of ours shows who it is, and whom it lets in.
type ServerTLSConfig struct {
	// Cert is a PEM file with the certificate, those between it and the root behind it. Empty: no TLS.
	Cert string `yaml:"cert"`
	// Key is a PEM file with the key of the certificate.
	Key string `yaml:"key"`
	// ClientCA is a PEM file with the roots of clients' certificates. Every client must then show one. Empty: clients show none.
	ClientCA string `yaml:"client_ca"`
}

// ClientTLSConfig is how a server is verified, and what it is shown.
type ClientTLSConfig struct {
	// CA is a PEM file with the roots that the server's certificate is verified against. Empty: those of the system.
	CA string `yaml:"ca"`
	// Cert is a PEM file with the certificate that the server is shown. Empty: none.
	Cert string `yaml:"cert"`
	// Key is a PEM file with the key of that certificate.
	Key string `yaml:"key"`
	// ServerName is the name that the server's certificate must have. Empty: the host of its address.
	ServerName string `yaml:"server_name"`
	// InsecureSkipVerify believes any certificate. Whoever stands between us and the server can then read and change everything.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify"`
}

// FileError is a file that a key names and that cannot be used.
type FileError struct {
	// Key is the last part of the key's path.
	Key string
	Err error
}

// Error implements [error].
func (e *FileError) Error() string { return e.Key + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// IsZero says whether there is no TLS.
func (c ServerTLSConfig) IsZero() bool { return c == ServerTLSConfig{} }

// Load reads the files and returns the server's side of TLS, for HTTP/2 and HTTP/1, and a hash of what was read, which there is as well when it cannot be used.
// An error is a [*FileError].
func (c ServerTLSConfig) Load() (*tls.Config, [sha256.Size]byte, error) {
	var files pemFiles
	cert, key := files.read("cert", c.Cert), files.read("key", c.Key)
	roots := files.read("client_ca", c.ClientCA)
	pair := files.pair(c.Cert, cert, c.Key, key)
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair}}
	if c.ClientCA != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, files.roots("client_ca", c.ClientCA, roots)
		// A session that is taken up again is one whose client was verified against the roots of an earlier day.
		config.SessionTicketsDisabled = true
	}
	if files.err != nil {
		return nil, files.sum(), files.err
	}

	return config, files.sum(), nil
}

// Load reads the files and returns the client's side of TLS. Its certificate is read again for each connection, so that a rotated one works. An error is a [*FileError].
func (c ClientTLSConfig) Load() (*tls.Config, error) {
	var files pemFiles
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.InsecureSkipVerify} //nolint:gosec // the user's word
	if c.CA != "" {
		config.RootCAs = files.roots("ca", c.CA, files.read("ca", c.CA))
	}
	if c.Cert != "" || c.Key != "" {
		known := files.pair(c.Cert, files.read("cert", c.Cert), c.Key, files.read("key", c.Key))
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if pair, err := tls.LoadX509KeyPair(c.Cert, c.Key); err == nil {
				return &pair, nil
			}

			return &known, nil // in the middle of a rotation; the server will say if it is too old
		}
	}
	if files.err != nil {
		return nil, files.err
	}

	return config, nil
}

// pemFiles reads files and keeps the first error; from then on its results are of no use.
type pemFiles struct {
	texts [][]byte
	err   error
}

func (f *pemFiles) fail(key string, err error) {
	if f.err == nil {
		f.err = &FileError{Key: key, Err: err}
	}
}

// sum is a hash of everything that was read.
func (f *pemFiles) sum() [sha256.Size]byte {
	all := sha256.New()
	for _, text := range f.texts {
		one := sha256.Sum256(text)
		all.Write(one[:])
	}

	return [sha256.Size]byte(all.Sum(nil))
}

// read returns the text of a file; nothing where none is named.
func (f *pemFiles) read(key, path string) []byte {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // it is for the user to name it
	if err != nil {
		f.fail(key, err) // it names the file
		text = nil
	}
	f.texts = append(f.texts, text)

	return text
}

func (f *pemFiles) roots(key, path string, text []byte) *x509.CertPool {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		f.fail(key, fmt.Errorf("read %s: expected certificates in PEM form, got none", path))
	}

	return pool
}

func (f *pemFiles) pair(certPath string, cert []byte, keyPath string, key []byte) tls.Certificate {
	switch {
	case certPath == "":
		f.fail("cert", errors.New("is missing: cert and key belong together"))
	case keyPath == "":
		f.fail("key", errors.New("is missing: cert and key belong together"))
	case f.err != nil:
		return tls.Certificate{}
	}
	if block, _ := pem.Decode(cert); block == nil {
		f.fail("cert", fmt.Errorf("read %s: expected a certificate in PEM form, got none", certPath))
	}
	if block, _ := pem.Decode(key); block == nil {
		f.fail("key", fmt.Errorf("read %s: expected a key in PEM form, got none", keyPath))
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		f.fail("key", fmt.Errorf("read %s as the key of %s: %w", keyPath, certPath, err))
	}

	return pair
}
