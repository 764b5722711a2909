package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// certify returns a certificate for names that is its own root, good for both sides.
func certify(t *testing.T, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	home, err := net.ResolveTCPAddr("tcp", memnet.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), home.IP},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)

	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// secureClient speaks one protocol over TLS.
func secureClient(t *testing.T, roots *x509.CertPool, h2 bool, shown ...tls.Certificate) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: shown, ServerName: "models.example"}, Protocols: &http.Protocols{}}
	transport.Protocols.SetHTTP1(!h2)
	transport.Protocols.SetHTTP2(h2)
	t.Cleanup(transport.CloseIdleConnections)

	return &http.Client{Transport: transport}
}

func TestTheDataPortSpeaksTLS(t *testing.T) {
	t.Parallel()
	server, roots := certify(t, "models.example")
	user, users := certify(t, "user")
	stranger, _ := certify(t, "user")
	backend := httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-Proto"))
	})
	echo := grpcBackend(t)
	for _, mutual := range []bool{false, true} {
		r := socketRig(t, backend, func(s *Settings, _ *GateSettings) {
			s.GRPC = echo
			s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}}
			if mutual {
				s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, users
			}
		})
		open(r.gate)
		for _, h2 := range []bool{false, true} {
			res, err := secureClient(t, roots, h2, user).Get("https://" + r.front + "/")
			if err != nil {
				t.Fatal(err)
			}
			proto, _ := io.ReadAll(res.Body)
			if shut(res.Body); string(proto) != "https" || (res.ProtoMajor == 2) != h2 {
				t.Errorf("h2 %v: got %s, X-Forwarded-Proto %q", h2, res.Proto, proto)
			}
			for name, client := range map[string]*http.Client{"no certificate": secureClient(t, roots, h2), "a stranger's": secureClient(t, roots, h2, stranger)} {
				res, err := client.Get("https://" + r.front + "/")
				if (err == nil) == mutual {
					t.Errorf("client_ca %v, h2 %v, %s: %v", mutual, h2, name, err)
				}
				if err == nil {
					shut(res.Body)
				}
			}
		}
		conn, err := grpc.NewClient("passthrough:///"+r.front, grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{})),
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "models.example", Certificates: []tls.Certificate{user}})))
		if err != nil {
			t.Fatal(err)
		}
		question, reply := []byte("q"), []byte(nil)
		if err := conn.Invoke(t.Context(), "/s/m", &question, &reply); err != nil || string(reply) != "q" {
			t.Errorf("gRPC: %q, %v", reply, err)
		}
		shut(conn)
		if got := r.send(t.Context(), http.MethodGet, "/", nil); got.status != http.StatusBadRequest {
			t.Errorf("plain HTTP at a port with TLS: %+v", got)
		}
	}
}

// secureBackend serves both protocols over TLS and says who asked.
func secureBackend(t *testing.T, config *tls.Config) units.Address {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	address := tcp(serve(t, &http.Server{TLSConfig: config.Clone(), Protocols: protocols, ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			w.Header().Set("Grpc-Status", "0")
			w.Header().Set("Content-Type", "application/grpc")

			return
		}
		name := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		_, _ = io.WriteString(w, name)
	})}))
	address.TLS = true

	return address
}

func TestTheBackendMaySpeakTLS(t *testing.T) {
	t.Parallel()
	server, roots := certify(t, "models.internal")
	ours, us := certify(t, "pilotlight")
	open := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}}
	mutual := open.Clone()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, us
	for _, test := range []struct {
		name    string
		backend *tls.Config
		ours    *tls.Config
		want    string // empty: no connection
	}{
		{"verified", open, &tls.Config{RootCAs: roots}, "nobody"},
		{"verified by another name", open, &tls.Config{RootCAs: roots, ServerName: "models.internal"}, "nobody"},
		{"wrong name", open, &tls.Config{RootCAs: roots, ServerName: "other.internal"}, ""},
		{"unknown root", open, &tls.Config{RootCAs: us}, ""},
		{"unknown root, the system's", open, nil, ""},
		{"not verified", open, &tls.Config{InsecureSkipVerify: true}, "nobody"},
		{"we are shown", mutual, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{ours}}, "pilotlight"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, verdict, _ := judged(t, secureBackend(t, test.backend), func(s *Settings, _ *GateSettings) {
				s.BackendTLS, s.ConnectTimeout = test.ours, 10*time.Second // a loaded machine takes its time to read the roots
			}, func(r *rig) answer {
				for range 3 { // over kept connections too
					if got := r.send(t.Context(), http.MethodPost, "/", strings.NewReader("q")); got.body != test.want && test.want != "" {
						t.Fatalf("%+v", got)
					}
				}
				question, reply := []byte("q"), []byte(nil)
				err := r.dialGRPC(t).Invoke(t.Context(), "/s/m", &question, &reply)

				return answer{err: err, body: r.send(t.Context(), http.MethodGet, "/", nil).body}
			})
			switch {
			case test.want == "":
				if got.err == nil || !strings.Contains(got.err.Error(), "unreachable") || !strings.Contains(got.body, "unreachable") || verdict.Good+verdict.Bad != 0 {
					t.Errorf("%+v, %+v", got, verdict)
				}
			case got.body != test.want || verdict.Bad != 0:
				t.Errorf("%+v, %+v", got, verdict)
			}
		})
	}
}

// TestAHandshakeThatHangsTimesOut has a backend that accepts connections and says nothing.
func TestAHandshakeThatHangsTimesOut(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(listener) })
	address := tcp(listener.Addr().String())
	address.TLS = true
	got, verdict, _ := judged(t, address, func(s *Settings, _ *GateSettings) { s.ConnectTimeout = 100 * time.Millisecond }, func(r *rig) answer {
		return r.send(t.Context(), http.MethodGet, "/", nil)
	})
	if got.status != http.StatusGatewayTimeout || !strings.Contains(got.body, "connect_timeout") || verdict != (circuit.Tally{Bad: 1}) {
		t.Errorf("%+v, %+v", got, verdict)
	}
}

// TestConnectionsOverTLSAreKept: what TLS says by itself, such as session tickets, must not look like bytes that nobody asked for.
func TestConnectionsOverTLSAreKept(t *testing.T) {
	t.Parallel()
	server, roots := certify(t, "h")
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	var conns atomic.Int64
	address := tcp(serve(t, &http.Server{
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}}, Protocols: protocols,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns.Add(1)
			}
		},
	}))
	address.TLS = true
	_, verdict, _ := judged(t, address, func(s *Settings, _ *GateSettings) { s.BackendTLS = &tls.Config{RootCAs: roots} }, func(r *rig) answer {
		for i := range 50 {
			if got := r.send(t.Context(), http.MethodPost, "/", strings.NewReader("q")); got.status != http.StatusOK {
				t.Fatalf("request %d: %+v", i, got)
			}
		}

		return answer{}
	})
	if verdict != (circuit.Tally{Good: 50}) || conns.Load() != 1 {
		t.Errorf("%+v, over %d connections", verdict, conns.Load())
	}
}

// breakable is a connection that can be made to take nothing any more.
type breakable struct {
	net.Conn

	broken atomic.Bool
}

func (b *breakable) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, syscall.EPIPE
	}

	return b.Conn.Write(p)
}

// TestWhatWasNotWrittenOverTLSIsSentAgain has a kept connection that breaks before the first byte of the next request.
func TestWhatWasNotWrittenOverTLSIsSentAgain(t *testing.T) {
	t.Parallel()
	server, roots := certify(t, "h")
	conns := make(chan *breakable, 10)
	_, verdict, _ := judged(t, secureBackend(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}}), func(s *Settings, _ *GateSettings) {
		s.BackendTLS = &tls.Config{RootCAs: roots}
		s.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := Dialer().DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			b := &breakable{Conn: conn}
			conns <- b

			return b, nil
		}
	}, func(r *rig) answer {
		for i := range 3 {
			if got := r.send(t.Context(), http.MethodPost, "/", strings.NewReader("q")); got.status != http.StatusOK {
				t.Fatalf("request %d: %+v", i, got)
			}
			(<-conns).broken.Store(true)
		}

		return answer{}
	})
	if verdict.Bad != 0 || verdict.Good != 3 {
		t.Errorf("%+v", verdict)
	}
}
