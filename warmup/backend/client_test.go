package backend_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

func TestClientMarksItsRequests(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body string
	client := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		read, _ := io.ReadAll(r.Body)
		got, body = r, string(read)
	}), backend.ClientSettings{BasePath: "/base/", Version: "1.2", Headers: func() (http.Header, error) {
		return http.Header{"Authorization": {"Bearer x"}}, nil
	}})
	answer, err := client.Do(t.Context(), backend.Request{Method: http.MethodPost, Path: "/v2/models/a%2Fb/infer", Body: []byte("{}")})
	if err != nil || answer.Status != http.StatusOK {
		t.Fatalf("got %+v, %v", answer, err)
	}
	if want := "/base/v2/models/a%2Fb/infer"; got.URL.EscapedPath() != want {
		t.Errorf("path %s, expected %s", got.URL.EscapedPath(), want)
	}
	for name, want := range map[string]string{
		"User-Agent": "pilotlight/1.2 (synthetic)", "X-Pilotlight-Synthetic": "1", "Authorization": "Bearer x",
		"Content-Type": "application/json", "Accept-Encoding": "",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("header %s is %q, expected %q", name, got.Header.Get(name), want)
		}
	}
	if body != "{}" {
		t.Errorf("body %q", body)
	}
	if timing := answer.Timing; timing.Connect <= 0 || timing.FirstByte < timing.Connect || timing.Total < timing.FirstByte {
		t.Errorf("timing %+v is not in order", timing)
	}
}

func TestClientConnectsAnewForEachRequest(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	client := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen[r.RemoteAddr] = true }), backend.ClientSettings{})
	for range 5 {
		if _, err := client.Do(t.Context(), backend.Request{Method: http.MethodGet, Path: "/"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 5 {
		t.Errorf("5 requests came over %d connections", len(seen))
	}
}

func TestClientBoundsAnswers(t *testing.T) {
	t.Parallel()
	client := serve(t, fake{"GET /": {200, "0123456789"}}, backend.ClientSettings{BodyLimit: 4})
	answer, err := client.Do(t.Context(), backend.Request{Method: http.MethodGet, Path: "/"})
	if err != nil || !answer.Truncated || string(answer.Body) != "0123" {
		t.Errorf("got %q, truncated %v, %v", answer.Body, answer.Truncated, err)
	}
}

func TestClientFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	client := serve(t, http.RedirectHandler("/elsewhere", http.StatusFound), backend.ClientSettings{})
	answer, err := client.Do(t.Context(), backend.Request{Method: http.MethodGet, Path: "/"})
	if err != nil || answer.Status != http.StatusFound {
		t.Errorf("got %d, %v", answer.Status, err)
	}
}

func TestCancelClosesTheConnectionAtTheBackend(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan struct{}), make(chan struct{})
	client := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-r.Context().Done()
		close(gone)
	}), backend.ClientSettings{})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		cancel(errors.New("enough"))
	}()
	_, err := client.Do(ctx, backend.Request{Method: http.MethodPost, Path: "/", Body: []byte("{}")})
	if err == nil || !strings.Contains(err.Error(), "enough") || errors.Is(err, backend.ErrNotYet) {
		t.Errorf("got %v, expected the cause, which is no word of the server's", err)
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the backend still holds the connection")
	}
}

func TestListening(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := []struct{ name, network, address, client string }{
		{"loopback", "tcp", "127.0.0.1:0", ""},
		{"loopback, IPv6", "tcp", "[::1]:0", ""},
		{"localhost", "tcp", "127.0.0.1:0", "localhost"},
		{"localhost, IPv6 only", "tcp", "[::1]:0", "localhost"},
		{"unix", "unix", filepath.Join(dir, "s"), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen(test.network, test.address)
			if err != nil {
				t.Skip(err)
			}
			address := listener.Addr().String()
			if test.client != "" {
				_, port, _ := net.SplitHostPort(address)
				address = net.JoinHostPort(test.client, port)
			}
			client, err := backend.NewClient(backend.ClientSettings{Network: test.network, Address: address})
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Listening(t.Context()); err != nil {
				t.Errorf("somebody listens: %v", err)
			}
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
			for range 200 {
				if err := client.Listening(t.Context()); !errors.Is(err, backend.ErrNotYet) {
					t.Fatalf("nobody listens: got %v, expected not yet", err)
				}
			}
		})
	}
}

// TestNobodyListensToItself asks the kernel so often for a connection to a port that it may choose itself that it connects some to themselves.
func TestNobodyListensToItself(t *testing.T) {
	t.Parallel()
	address := evenAddress(t)
	client, err := backend.NewClient(backend.ClientSettings{Network: "tcp", Address: address})
	if err != nil {
		t.Fatal(err)
	}
	for range 60000 {
		if client.Listening(t.Context()) == nil {
			t.Fatal("a socket connected to itself was taken for the backend")
		}
	}
	if again, err := net.Listen("tcp", address); err != nil {
		t.Errorf("the backend cannot have its port: %v", err)
	} else {
		_ = again.Close()
	}
}

// evenAddress returns a free address whose port the kernel is likely to choose for those who connect: even ones, while it binds to odd ones.
func evenAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address, ok := listener.Addr().(*net.TCPAddr)
		if err := listener.Close(); err != nil || !ok {
			t.Fatal(err, ok)
		}
		address.Port &^= 1
		if listener, err = net.Listen("tcp", address.String()); err == nil {
			_ = listener.Close()

			return address.String()
		}
	}
	t.Fatal("no free even port")

	return ""
}

func TestNewClientRefuses(t *testing.T) {
	t.Parallel()
	for _, settings := range []backend.ClientSettings{{Network: "udp", Address: "x:1"}, {Network: "tcp"}} {
		if _, err := backend.NewClient(settings); err == nil {
			t.Errorf("%+v was accepted", settings)
		}
	}
}

func TestUnixSocketHasAnAuthority(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	var host string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { host = r.Host }))
	server.Listener = listener
	server.Start()
	defer server.Close()
	client, err := backend.NewClient(backend.ClientSettings{Network: "unix", Address: listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(t.Context(), backend.Request{Method: http.MethodGet, Path: "/"}); err != nil || host != "localhost" {
		t.Errorf("host %q, %v", host, err)
	}
}
