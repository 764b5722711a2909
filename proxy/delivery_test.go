package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestC19RequestIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	perTransport(t, requestIsDeliveredOnce)
}

func requestIsDeliveredOnce(t *testing.T, transport Transport) {
	t.Parallel()
	bodies := []struct{ name, request string }{
		{"POST", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"},
		{"POST with a key", "POST / HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n"},
		{"GET", "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
		{"DELETE with a key", "DELETE / HTTP/1.1\r\nHost: h\r\nX-Idempotency-Key: k\r\n\r\n"},
		{"OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"},
	}
	for _, test := range bodies {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var delivered atomic.Int64
			// The first request on a connection is answered, the second is taken and never answered: this is where the stdlib's transport would send again.
			r := socketRig(t, rawBackend(t, func(_ int, conn net.Conn, _ string, rest *bufio.Reader) {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				if _, err := readHead(rest); err == nil {
					delivered.Add(1)
				}
			}), over(transport))
			open(r.gate)
			if got := r.send(t.Context(), http.MethodGet, "/", nil); got.status != http.StatusOK {
				t.Fatalf("%+v", got)
			}
			_, answers := r.raw(t, test.request)
			res, err := http.ReadResponse(answers, nil)
			if err != nil || res.StatusCode != http.StatusBadGateway || delivered.Load() != 1 {
				t.Errorf("%v, %v, delivered %d times", res, err, delivered.Load())
			}
		})
	}
}

// TestC19RequestThatWasAnsweredIsNotSentAgain has a backend that answers 502 by itself, on a connection that was used before.
func TestC19RequestThatWasAnsweredIsNotSentAgain(t *testing.T) {
	t.Parallel()
	perTransport(t, func(t *testing.T, transport Transport) {
		backend := record(t, func(conn net.Conn, request received) bool {
			if request.target == "/warm" {
				return own(conn, request)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nmine")

			return false
		})
		r := socketRig(t, backend.address(), over(transport))
		open(r.gate)
		for _, header := range [][2]string{{"X-A", "1"}, {"Idempotency-Key", "k"}} {
			for _, body := range []string{"prompt", ""} {
				client := r.asker(t, false)
				client.ask(call{method: http.MethodPost, target: "/warm"})
				if got := client.ask(call{method: http.MethodPost, target: "/", header: [][2]string{header}, body: body}); got.Status != http.StatusBadGateway || got.Body != "mine" {
					t.Errorf("got %+v", got)
				}
			}
		}
		if n := len(backend.requests()); n != 8 {
			t.Errorf("%d requests arrived, want 4 and 4 to begin with", n)
		}
	})
}

func TestStaleConnectionIsNotWrittenTo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		act  func(net.Conn)
		want error
	}{
		{"idle", func(net.Conn) {}, nil},
		{"closed", func(c net.Conn) { shut(c) }, errStale},
		{"spoke out of turn", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\n\r\n") }, errStale},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			acted := make(chan struct{})
			address := rawBackend(t, func(_ int, conn net.Conn, _ string, rest *bufio.Reader) {
				test.act(conn)
				close(acted)
				_, _ = io.Copy(io.Discard, rest)
			})
			dialled, err := net.Dial(address.Network, address.Host)
			if err != nil {
				t.Fatal(err)
			}
			defer shut(dialled)
			conn := &backendConn{Conn: dialled}
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			<-acted
			if test.want != nil {
				until(t, "stale", conn.stale)
			}
			before := conn.written.Load()
			conn.check.Store(true)
			if _, err := conn.Write([]byte("GET")); !errors.Is(err, test.want) || (err != nil && conn.written.Load() != before) {
				t.Errorf("%v, %d bytes written", err, conn.written.Load()-before)
			}
		})
	}
}

// TestRequestOfWhichNothingWasWrittenIsSentAgain has pooled connections on which the first write fails.
func TestRequestOfWhichNothingWasWrittenIsSentAgain(t *testing.T) {
	t.Parallel()
	perTransport(t, requestOfWhichNothingWasWrittenIsSentAgain)
}

func requestOfWhichNothingWasWrittenIsSentAgain(t *testing.T, transport Transport) {
	t.Parallel()
	var refuse atomic.Bool
	r := socketRig(t, httpBackend(t, echo), func(s *Settings, _ *GateSettings) {
		s.Transport = transport
		s.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)

			return &failingConn{Conn: conn, fail: &refuse}, err
		}
	})
	passing(r.gate)
	for i := range 5 {
		refuse.Store(i > 0) // every connection that is in the pool by now
		if got := r.send(t.Context(), http.MethodPost, "/", strings.NewReader("body")); got.status != http.StatusOK || got.body != "body" {
			t.Fatalf("%+v", got)
		}
	}
}

// failingConn fails, once, to write as soon as fail is set.
type failingConn struct {
	net.Conn

	fail *atomic.Bool
}

func (c *failingConn) Write(p []byte) (int, error) {
	if c.fail.Swap(false) {
		return 0, io.ErrClosedPipe
	}

	return c.Conn.Write(p)
}

func TestRequestWhoseConnectFailsGoesBackToTheHead(t *testing.T) {
	t.Parallel()
	perTransport(t, requestWhoseConnectFailsGoesBackToTheHead)
}

func requestWhoseConnectFailsGoesBackToTheHead(t *testing.T, transport Transport) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Int64
		var current atomic.Pointer[memnet.Listener]
		dead := memnet.Listen()
		shut(dead)
		current.Store(dead)
		var gate *Gate
		r, end := memoryRig(t, echo, func(s *Settings, _ *GateSettings) {
			s.Transport = transport
			s.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				return current.Load().DialContext(ctx, network, address)
			}
			s.Lost = func(cause error) {
				if cause == nil {
					t.Error("no cause")
				}
				lost.Add(1)
				gate.Hold()
			}
		})
		defer end()
		gate = passing(r.gate)
		var wait sync.WaitGroup
		for i := range 20 {
			wait.Go(func() {
				var body io.Reader = strings.NewReader(fmt.Sprint("body ", i))
				if i%2 == 0 {
					body = io.MultiReader(body) // of unknown length
				}
				if got := r.send(t.Context(), http.MethodPost, "/", body); got.status != http.StatusOK || got.body != fmt.Sprint("body ", i) {
					t.Errorf("request %d: %+v", i, got)
				}
			})
		}
		synctest.Wait()
		if s := gate.Snapshot(); s.Held != 20 || lost.Load() == 0 {
			t.Fatalf("%+v, lost %d times", s, lost.Load())
		}
		time.Sleep(3 * time.Second)
		gate.Ramp(1) // too early: the backend refuses once more
		synctest.Wait()
		if s := gate.Snapshot(); s.Held != 20 {
			t.Fatalf("%+v", s)
		}
		time.Sleep(3 * time.Second)
		current.Store(r.net)
		gate.Ramp(4)
		wait.Wait()
		if !r.quiet() {
			t.Errorf("%+v", gate.Snapshot())
		}
	})
}

func TestBackendThatStaysAwayEndsInARefusal(t *testing.T) {
	t.Parallel()
	var lost atomic.Int64
	r := socketRig(t, tcp("127.0.0.1:1"), func(s *Settings, _ *GateSettings) { s.Lost = func(error) { lost.Add(1) } })
	passing(r.gate) // and nobody makes it hold
	if got := r.send(t.Context(), http.MethodPost, "/", strings.NewReader("x")); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "unreachable") || lost.Load() == 0 {
		t.Errorf("%+v, lost %d times", got, lost.Load())
	}
}

// judged runs one request against a backend and returns what the breaker made of it.
func judged(t *testing.T, backend units.Address, change func(*Settings, *GateSettings), act func(*rig) answer) (answer, circuit.Tally, int64) {
	t.Helper()
	breaker := circuit.New(circuit.Settings{Config: circuit.DefaultConfig()})
	var suspected atomic.Int64
	r := socketRig(t, backend, func(s *Settings, g *GateSettings) {
		s.Breaker = breaker
		s.Suspect = func() { suspected.Add(1) }
		if change != nil {
			change(s, g)
		}
	})
	open(r.gate)
	got := act(r)
	until(t, "quiet", r.quiet)
	until(t, "ended", func() bool { return breaker.Snapshot().InFlight == 0 })

	return got, breaker.Snapshot().Window, suspected.Load()
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	perTransport(t, verdicts)
}

func verdicts(t *testing.T, transport Transport) {
	t.Parallel()
	short := func(s *Settings, _ *GateSettings) {
		s.Transport = transport
		s.Timeouts = TimeoutsConfig{FirstByte: units.Duration(200 * time.Millisecond), StreamIdle: units.Duration(200 * time.Millisecond)}
	}
	plain := func(text string) func(net.Conn) { return func(c net.Conn) { _, _ = io.WriteString(c, text) } }
	silent := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c) // until we hang up
		}
	}
	good, bad, none := circuit.Tally{Good: 1}, circuit.Tally{Bad: 1}, circuit.Tally{None: 1}
	tests := []struct {
		name    string
		answer  func(net.Conn)
		status  int
		broken  bool
		verdict circuit.Tally
		suspect bool
	}{
		{"200", plain("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), 200, false, good, false},
		{"204", plain("HTTP/1.1 204 No Content\r\n\r\n"), 204, false, good, false},
		{"404 shows a backend that is alive", plain("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), 404, false, good, false},
		{"408 says nothing", plain("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"), 408, false, none, false},
		{"429 says nothing", plain("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"), 429, false, none, false},
		{"500", plain("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"), 500, false, bad, false},
		{"503", plain("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nCUDA"), 503, false, bad, false},
		{"503 with a time to come back is busy", plain("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"), 503, false, none, false},
		{"503 while loading is asked once more", plain("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 13\r\n\r\nLoading model"), 503, false, circuit.Tally{None: 2}, false},
		{"broken before an answer", plain(""), 502, false, bad, true},
		{"broken head", plain("HTTP/1.1 200"), 502, false, bad, true},
		{"broken small answer", plain("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nonly"), 200, true, bad, true},
		{"broken stream counts once", plain("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n"), 200, true, bad, true},
		{"no first byte", silent(""), 504, false, bad, false},
		{"head but no first byte", silent("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), 200, true, bad, false},
		{"stream falls silent", silent("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n"), 200, true, bad, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			backend := rawBackend(t, func(_ int, conn net.Conn, _ string, _ *bufio.Reader) { test.answer(conn) })
			got, verdict, suspected := judged(t, backend, short, func(r *rig) answer {
				return r.send(t.Context(), http.MethodGet, "/", nil)
			})
			if got.status != test.status || (got.err != nil) != test.broken {
				t.Errorf("got %+v", got)
			}
			if verdict != test.verdict || (suspected > 0) != test.suspect {
				t.Errorf("verdict %+v, suspected %d times; want %+v", verdict, suspected, test.verdict)
			}
		})
	}
}

func TestC42ClientThatLeavesIsNoVerdict(t *testing.T) {
	t.Parallel()
	perTransport(t, clientThatLeavesIsNoVerdict)
}

func clientThatLeavesIsNoVerdict(t *testing.T, transport Transport) {
	t.Parallel()
	for _, begun := range []string{"", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ntoken\r\n"} {
		cancelled := make(chan struct{})
		backend := rawBackend(t, func(_ int, conn net.Conn, _ string, _ *bufio.Reader) {
			_, _ = io.WriteString(conn, begun)
			_, _ = io.Copy(io.Discard, conn)
			close(cancelled)
		})
		_, verdict, suspected := judged(t, backend, over(transport), func(r *rig) answer {
			ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer leave()

			return r.send(ctx, http.MethodPost, "/", strings.NewReader("prompt"))
		})
		select {
		case <-cancelled: // C06: the backend hears of it
		case <-time.After(time.Second):
			t.Error("the backend works on")
		}
		if verdict.Bad != 0 || suspected != 0 {
			t.Errorf("after %q: %+v, suspected %d times", begun, verdict, suspected)
		}
	}
}

func TestC03TokenStreamsHaveNoTotalTimeout(t *testing.T) {
	t.Parallel()
	perTransport(t, tokenStreamsHaveNoTotalTimeout)
}

func tokenStreamsHaveNoTotalTimeout(t *testing.T, transport Transport) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, end := memoryRig(t, func(w http.ResponseWriter, r *http.Request) {
			tokens := 60
			if r.URL.Path == "/silent" {
				tokens = 3
			}
			for range tokens {
				_, _ = io.WriteString(w, "token\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
			if r.URL.Path == "/silent" {
				<-r.Context().Done()
			}
		}, func(s *Settings, _ *GateSettings) {
			s.Transport = transport
			s.Timeouts = TimeoutsConfig{FirstByte: units.Duration(5 * time.Second), StreamIdle: units.Duration(3 * time.Second)}
		})
		defer end()
		open(r.gate)
		if got := r.send(t.Context(), http.MethodGet, "/", nil); got.err != nil || strings.Count(got.body, "token") != 60 {
			t.Errorf("%d tokens, %v", strings.Count(got.body, "token"), got.err)
		}
		begun := time.Now()
		got := r.send(t.Context(), http.MethodGet, "/silent", nil)
		if took := time.Since(begun); !errors.Is(got.err, io.ErrUnexpectedEOF) || took != 5*time.Second || strings.Count(got.body, "token") != 3 {
			t.Errorf("%d tokens in %s, %v", strings.Count(got.body, "token"), took, got.err)
		}
	})
}

// TestSlowReaderIsNotASilentBackend has a client that reads nothing for longer than the backend may be silent.
func TestSlowReaderIsNotASilentBackend(t *testing.T) {
	t.Parallel()
	perTransport(t, slowReaderIsNotASilentBackend)
}

func slowReaderIsNotASilentBackend(t *testing.T, transport Transport) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 8 << 20
		r, end := memoryRig(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) }, func(s *Settings, _ *GateSettings) {
			s.Transport = transport
			s.Timeouts.StreamIdle, s.Timeouts.WriteStall = units.Duration(3*time.Second), units.Duration(2*time.Minute)
		})
		defer end()
		open(r.gate)
		res, err := r.client.Get("http://front/")
		if err != nil {
			t.Fatal(err)
		}
		defer shut(res.Body)
		time.Sleep(time.Minute)
		if n, err := io.Copy(io.Discard, res.Body); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

func TestOpenBreakerRefusesAndHeldRequestsWaitForIt(t *testing.T) {
	t.Parallel()
	breaker := circuit.New(circuit.Settings{Config: circuit.DefaultConfig()})
	breaker.Force(circuit.Open)
	r := socketRig(t, httpBackend(t, echo), func(s *Settings, _ *GateSettings) { s.Breaker = breaker })
	passing(r.gate)
	if got := r.send(t.Context(), http.MethodGet, "/", nil); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "breaker_open") || got.header.Get("Retry-After") != "5" {
		t.Errorf("%+v", got)
	}
	r.gate.Hold()
	done := make(chan answer, 1)
	go func() { done <- r.send(t.Context(), http.MethodGet, "/", nil) }()
	until(t, "held", r.held(1))
	breaker.Force(circuit.Closed)
	r.gate.Ramp(1)
	if got := <-done; got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
}
