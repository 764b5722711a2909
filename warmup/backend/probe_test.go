package backend_test

import (
	"errors"
	"net"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

func TestProbeSeesEveryListener(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, listen, host string }{
		{"loopback", "127.0.0.1:0", "127.0.0.1"},
		{"every address", "0.0.0.0:0", "127.0.0.1"},
		{"every address, both families", "[::]:0", "127.0.0.1"},
		{"IPv6", "[::1]:0", "::1"},
		{"localhost", "127.0.0.1:0", "localhost"},
		{"localhost, IPv6 only", "[::1]:0", "localhost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", test.listen)
			if err != nil {
				t.Skip(err)
			}
			_, port, _ := net.SplitHostPort(listener.Addr().String())
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
			address := net.JoinHostPort(test.host, port)
			client, err := backend.NewClient(backend.ClientSettings{Network: "tcp", Address: address})
			if err != nil {
				t.Fatal(err)
			}
			probe := client.NewProbe(t.Context())
			defer probe.Close()
			for range 100 {
				if err := probe.Listening(t.Context()); !errors.Is(err, backend.ErrNotYet) {
					t.Fatalf("nobody listens: got %v", err)
				}
			}
			if listener, err = net.Listen("tcp", net.JoinHostPort(hostOf(test.listen), port)); err != nil {
				t.Skip(err)
			}
			defer func() { _ = listener.Close() }()
			if err := probe.Listening(t.Context()); err != nil {
				t.Errorf("somebody listens: %v", err)
			}
		})
	}
}

func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)

	return host
}

func BenchmarkProbe(b *testing.B) {
	client, err := backend.NewClient(backend.ClientSettings{Network: "tcp", Address: "127.0.0.1:9"})
	if err != nil {
		b.Fatal(err)
	}
	probe := client.NewProbe(b.Context())
	defer probe.Close()
	for b.Loop() {
		if probe.Listening(b.Context()) == nil {
			b.Fatal("somebody listens on the discard port")
		}
	}
}
