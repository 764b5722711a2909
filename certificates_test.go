package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/examples/digits"
)

// certify writes a certificate for 127.0.0.1, which is its own root, and its key.
func certify(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// shown is the name in the certificate that a port shows.
func shown(t *testing.T, address string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()

	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestTLSOnBothSides has a backend over TLS, users over TLS at two addresses, and a certificate that is rotated, badly and well.
func TestTLSOnBothSides(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	certify(t, "backend", in("backend.pem"), in("backend.key"))
	certify(t, "first", in("cert.pem"), in("key.pem"))
	backend, release := freeAddress(t), make(chan struct{})
	model := &oip{}
	server := &http.Server{Addr: backend, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-release
		}
		model.ServeHTTP(w, r)
	})}
	go func() { _ = server.ListenAndServeTLS(in("backend.pem"), in("backend.key")) }()
	defer func() { _ = server.Close() }()

	p, extra := freePorts(t), freeAddress(t)
	config := filepath.Join(folder, "pilotlight.yaml")
	text := fmt.Sprintf("version: 1\nbackend: {http: 'https://%s', tls: {ca: '%s'}}\nlisten:\n  data: '%s'\n  health: '%s'\n  admin: '%s'\n  extra: [{address: '%s', to: http}]\n  tls: {cert: '%s', key: '%s'}\ndrain: {settle: 0s}\n",
		backend, in("backend.pem"), p.data, p.health, p.admin, extra, in("cert.pem"), in("key.pem"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	pilotlight := start(t, "run", "-c", config)
	until(t, p.readyz(), http.StatusOK) // without TLS, and after synthetic requests with it

	users := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for _, address := range []string{p.data, extra} {
		res, err := users.Post("https://"+address+"/v2/models/m/infer", "application/json", strings.NewReader(string(digits.Body(1))))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK || shown(t, address) != "first" {
			t.Errorf("%s: status %d, shown %s", address, res.StatusCode, shown(t, address))
		}
	}

	// A certificate that does not fit the key changes nothing, and is said once.
	certify(t, "second", in("cert.pem"), in("other.key"))
	const refusal = "the changed files of a certificate cannot be used"
	deadline := time.Now().Add(30 * time.Second)
	for !strings.Contains(pilotlight.printed(), refusal) {
		if got := shown(t, p.data); got != "first" || time.Now().After(deadline) {
			t.Fatalf("shown %s", got)
		}
	}
	for later := time.Now().Add(2 * lookAgain); time.Now().Before(later); pause(t.Context()) {
		if got := shown(t, p.data); got != "first" {
			t.Fatalf("shown %s", got)
		}
	}
	if said := strings.Count(pilotlight.printed(), refusal); said != 1 {
		t.Errorf("said %d times", said)
	}
	// The key arrives.
	if err := os.Rename(in("other.key"), in("key.pem")); err != nil {
		t.Fatal(err)
	}
	for shown(t, p.data) != "second" {
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is never shown")
		}
	}
	if got := shown(t, extra); got != "second" {
		t.Errorf("the extra address shows %s", got)
	}

	// A drain waits for what is under way at the extra address.
	res, err := users.Get("https://" + extra + "/slow")
	if err != nil {
		t.Fatal(err)
	}
	pilotlight.signal(syscall.SIGTERM)
	pilotlight.line("draining")
	for {
		conn, err := net.Dial("tcp", extra)
		if err != nil {
			break // it accepts no more
		}
		_ = conn.Close()
	}
	close(release)
	var body strings.Builder
	if err := res.Write(&body); err != nil || !strings.Contains(body.String(), "{}") {
		t.Errorf("the answer under way at the drain: %v\n%s", err, body.String())
	}
	_ = res.Body.Close()
	if code := pilotlight.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestAPortThatIsTakenIsSaidBeforeAnythingStarts has the extra address taken.
func TestAPortThatIsTakenIsSaidBeforeAnythingStarts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	p := freePorts(t)
	config := filepath.Join(t.TempDir(), "pilotlight.yaml")
	text := fmt.Sprintf("version: 1\nbackend: {http: 'localhost:1'}\nlisten: {data: '%s', health: '%s', admin: '%s', extra: [{address: '%s', to: grpc}]}\n", p.data, p.health, p.admin, taken.Addr())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	pilotlight := start(t, "run", "-c", config)
	if code := pilotlight.exit(); code != exitFailure || !strings.Contains(pilotlight.printed(), "listen for extra[0]") || strings.Contains(pilotlight.printed(), "warm-up") {
		t.Errorf("exit code %d", code)
	}
}
