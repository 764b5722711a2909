package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// TestC06ClientLeavesWhileItsBodyIsNotRead has uploads of unknown length of which more is there than is read ahead, so that no read tells that the client has gone.
func TestC06ClientLeavesWhileItsBodyIsNotRead(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		passing bool
	}{
		{name: "held"},
		{name: "backend takes nothing", passing: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			perTransport(t, func(t *testing.T, transport Transport) {
				t.Parallel()
				ended := make(chan struct{})
				stuck := rawBackend(t, func(_ int, conn net.Conn, _ string, _ *bufio.Reader) {
					if tcp, ok := conn.(*net.TCPConn); ok {
						_ = tcp.SetReadBuffer(4 << 10)
					}
					<-ended // reads nothing meanwhile
				})
				t.Cleanup(func() { close(ended) })
				r := socketRig(t, stuck, func(s *Settings, gate *GateSettings) {
					s.Transport = transport
					gate.Hold.MaxStreamBody = 4 << 10
					s.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
						conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
						if tcp, ok := conn.(*net.TCPConn); ok {
							_ = tcp.SetWriteBuffer(4 << 10)
						}

						return conn, err
					}
				})
				if tt.passing {
					passing(r.gate)
				}
				conn, err := net.Dial("tcp", r.front)
				if err != nil {
					t.Fatal(err)
				}
				// It fits into the buffers of the kernel, or the end of the connection would not come through.
				_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
				for range 24 {
					_, _ = io.WriteString(conn, "1000\r\n"+string(make([]byte, 0x1000))+"\r\n")
				}
				until(t, "in", func() bool { s := r.gate.Snapshot(); return s.Held+int(s.InFlight) == 1 })
				shut(conn)
				began := time.Now()
				until(t, "noticed", r.quiet)
				if took := time.Since(began); took > time.Second {
					t.Errorf("noticed after %v", took)
				}
			})
		})
	}
}
