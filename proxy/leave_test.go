package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// noted is a log that a test reads. It implements [slog.Handler].
type noted struct {
	mu    sync.Mutex
	lines []slog.Record
}

func (n *noted) Enabled(context.Context, slog.Level) bool { return true }
func (n *noted) WithAttrs([]slog.Attr) slog.Handler       { return n }
func (n *noted) WithGroup(string) slog.Handler            { return n }

// Handle implements [slog.Handler].
func (n *noted) Handle(_ context.Context, line slog.Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)

	return nil
}

// loud returns what a person would be shown.
func (n *noted) loud() (texts []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.lines {
		if line.Level >= slog.LevelWarn || strings.Contains(line.Message, "panic") {
			texts = append(texts, line.Message)
		}
	}

	return texts
}

// forget empties the log.
func (n *noted) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = nil
}

// clientLeft says whether a line says so, with a status of 499.
func (n *noted) clientLeft() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.lines {
		left := false
		line.Attrs(func(a slog.Attr) bool {
			left = left || (a.Key == "status" && a.Value.Int64() == statusClientLeft)

			return true
		})
		if left && line.Message == "client left" {
			return true
		}
	}

	return false
}

// worker is a backend that works for as long as somebody listens. arrived tells that it has begun, gone that it was told to stop.
type worker struct{ arrived, gone chan struct{} }

func newWorker() *worker { return &worker{arrived: make(chan struct{}), gone: make(chan struct{})} }

const tokens = "5\r\ntoken\r\n5\r\ntoken\r\n5\r\ntoken\r\n"

// http1 begins its work once it has want bytes of the body, and writes some tokens if it streams.
func (w *worker) http1(want int, streams bool) func(int, net.Conn, string, *bufio.Reader) {
	return func(_ int, conn net.Conn, _ string, rest *bufio.Reader) {
		defer close(w.gone)
		_, _ = io.ReadFull(rest, make([]byte, want))
		if streams {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"+tokens)
		}
		close(w.arrived)
		_, _ = io.Copy(io.Discard, rest) // until the connection ends
	}
}

// grpc does the same for a call, of which a message of 5 bytes comes first.
func (w *worker) grpc(streams bool) http.HandlerFunc {
	return func(out http.ResponseWriter, r *http.Request) {
		defer close(w.gone)
		_, _ = io.ReadFull(r.Body, make([]byte, 5))
		if streams {
			out.Header().Set("Content-Type", "application/grpc")
			_, _ = out.Write(make([]byte, 3*5)) // three messages of nothing
			_ = http.NewResponseController(out).Flush()
		}
		close(w.arrived)
		<-r.Context().Done()
	}
}

// departure is what a client was doing when it left.
type departure struct {
	name    string
	half    bool // with half of its body sent
	streams bool // with three tokens received
}

var departures = []departure{{name: "before the answer"}, {name: "in the middle of its body", half: true}, {name: "after three tokens", streams: true}}

// leavers are clients. Each sends a request, waits until the worker is at it, and returns how it leaves.
var leavers = []struct {
	name  string
	begin func(t *testing.T, r *rig, d departure, arrived <-chan struct{}) (leave func())
}{
	{"h1, end", func(t *testing.T, r *rig, d departure, arrived <-chan struct{}) func() {
		t.Helper()
		conn := r.leaver1(t, d, arrived)

		return func() { shut(conn) }
	}},
	{"h1, reset", func(t *testing.T, r *rig, d departure, arrived <-chan struct{}) func() {
		t.Helper()
		conn := r.leaver1(t, d, arrived)

		return func() {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			shut(conn)
		}
	}},
	{"h2", func(t *testing.T, r *rig, d departure, arrived <-chan struct{}) func() {
		t.Helper()
		client := &asker2{t: t, dial: r.dial}
		stream := client.send(with2("content-length", "10"), false)
		_ = client.framer.WriteData(stream, !d.half, []byte("0123456789")[:d.sends()])
		<-arrived
		for got := (reply{}); d.streams && len(got.Body) < len("token")*3; {
			frame, err := client.framer.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			got.take(frame)
		}

		return func() { _ = client.framer.WriteRSTStream(stream, http2.ErrCodeCancel) }
	}},
	{"gRPC", func(t *testing.T, r *rig, d departure, arrived <-chan struct{}) func() {
		t.Helper()
		ctx, leave := context.WithCancel(t.Context())
		stream, err := r.dialGRPC(t).NewStream(ctx, bidi, "/s/m")
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(new([]byte)); err != nil {
			t.Fatal(err)
		}
		if !d.half {
			_ = stream.CloseSend()
		}
		<-arrived
		for range 3 {
			if d.streams {
				if err := stream.RecvMsg(new([]byte)); err != nil {
					t.Error(err)
				}
			}
		}

		return leave
	}},
}

// sends is how much a client sends of its 10 bytes.
func (d departure) sends() int {
	if d.half {
		return 5
	}

	return 10
}

func (r *rig) leaver1(t *testing.T, d departure, arrived <-chan struct{}) net.Conn {
	t.Helper()
	conn, answers := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n"+"0123456789"[:d.sends()])
	<-arrived
	if d.streams {
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, len("token")*3)); err != nil {
			t.Fatal(err)
		}
	}

	return conn
}

func TestC06TheBackendHearsOfEachDeparture(t *testing.T) {
	settles(t)
	perTransport(t, func(t *testing.T, transport Transport) {
		for _, leaver := range leavers {
			for _, d := range departures {
				t.Run(leaver.name+" "+d.name, func(t *testing.T) {
					work, log := newWorker(), &noted{}
					backend := rawBackend(t, work.http1(d.sends(), d.streams))
					if leaver.name == "gRPC" {
						backend = httpBackend(t, work.grpc(d.streams))
					}
					_, verdict, suspected := judged(t, backend, func(s *Settings, _ *GateSettings) {
						s.Transport, s.Logger = transport, slog.New(log)
					}, func(r *rig) answer {
						leave := leaver.begin(t, r, d, work.arrived)
						leave()
						select {
						case <-work.gone:
						case <-time.After(time.Second):
							t.Error("the backend works on")
						}

						return answer{}
					})
					want := circuit.Tally{None: 1}
					if d.streams {
						want = circuit.Tally{Good: 1}
					}
					if verdict != want || suspected != 0 {
						t.Errorf("verdict %+v, suspected %d times", verdict, suspected)
					}
					until(t, "the log says who left", log.clientLeft)
					if lines := log.loud(); lines != nil {
						t.Errorf("the log is loud: %q", lines)
					}
				})
			}
		}
	})
}

// TestC06DepartureIsSeenBehindBytesThatNobodyReads has a held client whose body is larger than what is read ahead, so that its end lies behind bytes.
func TestC06DepartureIsSeenBehindBytesThatNobodyReads(t *testing.T) {
	settles(t)
	for _, test := range []struct{ name, body string }{
		{"in the middle of its body", fmt.Sprintf("%x\r\n%s", 64<<10, strings.Repeat("x", 32<<10))},
		{"after its body", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 32<<10, strings.Repeat("x", 32<<10))},
	} {
		perTransport(t, func(t *testing.T, transport Transport) {
			t.Run(test.name, func(t *testing.T) {
				r := socketRig(t, rawBackend(t, func(int, net.Conn, string, *bufio.Reader) {}), func(s *Settings, g *GateSettings) {
					s.Transport, g.Hold.MaxStreamBody = transport, units.Size(4<<10)
				})
				conn, _ := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"+test.body)
				t.Cleanup(func() { open(r.gate) })
				until(t, "the read-ahead is full", func() bool { return r.gate.Snapshot().HeldBytes == 4<<10 })
				shut(conn)
				for limit := time.Now().Add(2 * time.Second); !r.quiet(); time.Sleep(time.Millisecond) {
					if time.Now().After(limit) {
						t.Fatal("the place is still taken")
					}
				}
			})
		})
	}
}

// TestC06DepartureIsSeenWhileTheBackendTakesNothing has a client whose upload is stuck since the backend does not read. It leaves by a reset: the end of a connection would wait
// behind bytes for which no buffer has room. For the same reason the backend hears of it only when it reads.
func TestC06DepartureIsSeenWhileTheBackendTakesNothing(t *testing.T) {
	settles(t)
	perTransport(t, func(t *testing.T, transport Transport) {
		read, gone := make(chan struct{}), make(chan struct{})
		backend := rawBackend(t, func(_ int, _ net.Conn, _ string, rest *bufio.Reader) {
			<-read
			_, _ = io.Copy(io.Discard, rest)
			close(gone)
		})
		r := socketRig(t, backend, over(transport))
		open(r.gate)
		conn, _ := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n")
		_ = conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		if n, err := io.Copy(conn, zeros(100_000_000)); err == nil {
			t.Fatalf("all of %d bytes were taken", n)
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		shut(conn)
		for limit := time.Now().Add(3 * time.Second); !r.quiet(); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Error("the exchange goes on")

				break
			}
		}
		close(read)
		<-gone
	})
}
