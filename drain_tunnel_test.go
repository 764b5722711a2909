package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// echoTunnel switches each connection to a protocol in which everything is sent back.
func echoTunnel(t *testing.T) units.Address {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				reader := bufio.NewReader(conn)
				if _, err := http.ReadRequest(reader); err == nil {
					_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
					_, _ = io.Copy(conn, reader)
				}
			}()
		}
	}()

	return units.Address{Network: "tcp", Host: listener.Addr().String()}
}

// TestC14TunnelLivesUntilTheDrainsLimit has tunnels that outlive the settling time: one that its client ends, and one that nobody does.
func TestC14TunnelLivesUntilTheDrainsLimit(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit time.Duration
		ends  bool
	}{
		{"its client ends it", time.Minute, true},
		{"nobody ends it", time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			backend := echoTunnel(t)
			p := idlePilot(t, func(c *config.Config) {
				c.Backend.HTTP = backend
				c.Drain.Settle, c.Drain.Limit.Value = units.Duration(100*time.Millisecond), units.Duration(test.limit)
			})
			p.incarnation.Warm()
			p.gate.Follow(health.Move{From: health.Warming, To: health.Ready})
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = p.data.Serve(p.handler.Limit(listener)) }()
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			reader := bufio.NewReader(conn)
			if res, err := http.ReadResponse(reader, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(res, err)
			}
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				_ = p.drain(context.Background())
			}()
			// Once nobody can connect any more, the tunnel is all that is left.
			for err == nil {
				var late net.Conn
				if late, err = net.Dial("tcp", listener.Addr().String()); err == nil {
					_ = late.Close()
				}
			}
			_, _ = io.WriteString(conn, "still there\n")
			if word, err := reader.ReadString('\n'); word != "still there\n" || err != nil {
				t.Errorf("the tunnel says %q and error %v", word, err)
			}
			select {
			case <-drained:
				t.Error("the drain did not wait for the tunnel")
			default:
			}
			if test.ends {
				_ = conn.Close()
			}
			select {
			case <-drained:
			case <-time.After(30 * time.Second):
				t.Error("the drain goes on")
			}
		})
	}
}
