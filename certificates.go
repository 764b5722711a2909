package main

import (
	"crypto/sha256"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
)

// certificates are what a port shows to clients. A client that connects makes us look whether the files have changed, at most once in a while, so
// that a rotated certificate needs no restart; files that cannot be used change nothing.
type certificates struct {
	key    string // of the configuration
	files  config.ServerTLSConfig
	logger *slog.Logger

	mu      sync.Mutex
	present *tls.Config
	seen    [sha256.Size]byte // what the last look read
	looked  time.Time
}

// lookAgain is the least time between two looks at the files. Kubernetes takes about a minute to bring a changed Secret.
const lookAgain = time.Second

func newCertificates(key string, files config.ServerTLSConfig, logger *slog.Logger) (*certificates, error) {
	loaded, sum, err := files.Load()
	if err != nil {
		return nil, err
	}

	return &certificates{key: key, files: files, logger: logger, present: loaded, seen: sum, looked: time.Now()}, nil
}

// server returns the server's side of TLS, nil if there is none.
func (c *certificates) server() *tls.Config {
	if c == nil {
		return nil
	}

	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil },
	}
}

// current is what holds now.
func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.looked) < lookAgain {
		return c.present
	}
	c.looked = now
	loaded, sum, err := c.files.Load()
	if sum == c.seen {
		return c.present
	}
	c.seen = sum
	if err != nil {
		c.logger.Error("the changed files of a certificate cannot be used, the old ones stay in force", "key", c.key, "error", err)

		return c.present
	}
	c.present = loaded
	c.logger.Info("a certificate was read again", "key", c.key, "file", c.files.Cert)

	return c.present
}
