package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// short is a limit that a test waits for over real sockets.
const short = units.Duration(200 * time.Millisecond)

// TestUploadThatTheBackendDoesNotTakeEnds has a backend that reads the head of a request and nothing else.
func TestUploadThatTheBackendDoesNotTakeEnds(t *testing.T) {
	t.Parallel()
	perTransport(t, uploadThatTheBackendDoesNotTakeEnds)
}

func uploadThatTheBackendDoesNotTakeEnds(t *testing.T, transport Transport) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		left := make(chan struct{})
		backend := rawBackend(t, func(_ int, _ net.Conn, _ string, _ *bufio.Reader) { <-left })
		got, verdict, suspected := judged(t, backend, func(s *Settings, _ *GateSettings) { s.Transport = transport; s.Timeouts.UploadIdle = short }, func(r *rig) answer {
			defer close(left)
			if h2 {
				r.useHTTP2(t)
			}

			return r.send(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 32<<20)))
		})
		if got.status != http.StatusGatewayTimeout || !strings.Contains(got.body, "upload_idle_timeout") || verdict != (circuit.Tally{Bad: 1}) || suspected != 0 {
			t.Errorf("HTTP/2 %v: %+v, %+v, suspected %d times", h2, got, verdict, suspected)
		}
	}
}

// TestSlowSenderIsNotABackendThatTakesNothing has a client that pauses for longer than the backend may take nothing.
func TestSlowSenderIsNotABackendThatTakesNothing(t *testing.T) {
	t.Parallel()
	perTransport(t, slowSenderIsNotABackendThatTakesNothing)
}

func slowSenderIsNotABackendThatTakesNothing(t *testing.T, transport Transport) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, end := memoryRig(t, echo, func(s *Settings, _ *GateSettings) {
			s.Transport = transport
			s.Timeouts.UploadIdle = units.Duration(time.Second)
		})
		defer end()
		open(r.gate)
		body, client := io.Pipe()
		go func() {
			for range 5 {
				_, _ = io.WriteString(client, "piece")
				time.Sleep(time.Minute)
			}
			shut(client)
		}()
		if got := r.send(t.Context(), http.MethodPost, "/", body); got.body != strings.Repeat("piece", 5) {
			t.Errorf("%+v", got)
		}
	})
}

// TestClientThatReadsNothingLosesItsAnswer has a backend with a large answer, which is not to blame. On HTTP/2 a neighbour on the connection is not disturbed.
// TestClientThatStopsSendingGivesItsPlaceUp has one that announces a body and never ends it, while another waits for its permit. The standard transport cannot be
// tested: cancelled, it waits until its reader of the body returns.
func TestClientThatStopsSendingGivesItsPlaceUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, end := memoryRig(t, echo, func(s *Settings, gate *GateSettings) {
			s.Timeouts.BodyIdle = units.Duration(5 * time.Second)
			gate.Concurrency.Limit = units.Auto[int]{Value: 1, Set: true}
		})
		defer end()
		open(r.gate)
		body, client := io.Pipe()
		defer shut(client)
		stopped := make(chan answer, 1)
		go func() { stopped <- r.send(t.Context(), http.MethodPost, "/", body) }()
		_, _ = io.WriteString(client, "some of it")
		synctest.Wait()
		began := time.Now()
		if got := r.send(t.Context(), http.MethodGet, "/", nil); got.status != http.StatusOK || time.Since(began) != 5*time.Second {
			t.Errorf("the other one got %+v after %v", got, time.Since(began))
		}
		if got := <-stopped; got.status != http.StatusRequestTimeout || !strings.Contains(got.body, "body_idle_timeout") {
			t.Errorf("%+v", got)
		}
	})
}

func TestClientThatReadsNothingLosesItsAnswer(t *testing.T) {
	t.Parallel()
	perTransport(t, clientThatReadsNothingLosesItsAnswer)
}

func clientThatReadsNothingLosesItsAnswer(t *testing.T, transport Transport) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		backend := httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/large" {
				_, _ = w.Write(make([]byte, 64<<20))
			}
		})
		_, verdict, suspected := judged(t, backend, func(s *Settings, _ *GateSettings) { s.Transport = transport; s.Timeouts.WriteStall = short }, func(r *rig) answer {
			if h2 {
				r.useHTTP2(t)
			}
			res, err := r.client.Get("http://" + r.front + "/large")
			if err != nil {
				t.Fatal(err)
			}
			defer shut(res.Body)
			until(t, "cut off", r.quiet)
			if h2 {
				if got := r.send(t.Context(), http.MethodGet, "/", nil); got.status != http.StatusOK {
					t.Errorf("the neighbour: %+v", got)
				}
			}
			n, err := io.Copy(io.Discard, res.Body)
			if err == nil {
				t.Errorf("HTTP/2 %v: the client got %d bytes and a clean end", h2, n)
			}

			return answer{}
		})
		if verdict.Bad != 0 || suspected != 0 {
			t.Errorf("HTTP/2 %v: %+v, suspected %d times", h2, verdict, suspected)
		}
	}
}

// TestC14SilentTunnelEnds has a tunnel that lives for as long as bytes move, and no longer.
func TestC14TunnelBeginsBeforeItsRequestIsKnownToBeSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := TimeoutsConfig{UploadIdle: 1, BodyIdle: 1, FirstByte: units.Duration(time.Second), StreamIdle: 1, TunnelIdle: units.Duration(time.Minute)}
		a := &attempt{ours: true, x: &exchange{}}
		a.clock.start(limits, a)
		a.clock.wake()
		a.clock.tunnel()
		a.clock.sent()
		time.Sleep(59 * time.Second)
		if reason, up := a.clock.timeUp(); up {
			t.Errorf("ended for %s", reason)
		}
		time.Sleep(2 * time.Second)
		if reason, _ := a.clock.timeUp(); reason != TunnelIdleTimeout {
			t.Errorf("a silent tunnel ended for %s", reason)
		}
		a.clock.stop()
	})
}

func TestC14SilentTunnelEnds(t *testing.T) {
	t.Parallel()
	perTransport(t, silentTunnelEnds)
}

func silentTunnelEnds(t *testing.T, transport Transport) {
	t.Parallel()
	r := socketRig(t, rawBackend(t, func(_ int, conn net.Conn, _ string, rest *bufio.Reader) {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, rest)
	}), func(s *Settings, _ *GateSettings) { s.Transport = transport; s.Timeouts.TunnelIdle = 2 * short })
	open(r.gate)
	conn, answers := r.raw(t, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if head, err := readHead(answers); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101") {
		t.Fatalf("%q, %v", head, err)
	}
	begun, silent := time.Now(), time.Time{}
	for time.Since(begun) < 4*short.Std() {
		silent = time.Now() // not after the pause, which a busy machine makes as long as the limit
		_, _ = io.WriteString(conn, "echo\n")
		if line, err := answers.ReadString('\n'); err != nil || line != "echo\n" {
			t.Fatalf("after %s: %q, %v", time.Since(begun), line, err)
		}
		time.Sleep(short.Std() / 4)
	}
	if _, err := answers.ReadByte(); err == nil || time.Since(silent) < short.Std() || time.Since(silent) > 5*time.Second {
		t.Errorf("the tunnel ended after %s: %v", time.Since(silent), err)
	}
	until(t, "quiet", r.quiet)
}

// TestOpenCallMayBeSilentAsLongAsATunnel has a caller who thinks before the second message; the control thinks for too long.
func TestOpenCallMayBeSilentAsLongAsATunnel(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		tunnel units.Duration
		ends   bool
	}{{"within the limit", units.Duration(time.Minute), false}, {"beyond", short, true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, verdict, _ := judged(t, grpcBackend(t), func(s *Settings, _ *GateSettings) {
				s.Timeouts.FirstByte, s.Timeouts.StreamIdle, s.Timeouts.UploadIdle, s.Timeouts.TunnelIdle = short/4, short/4, short/4, test.tunnel
			}, func(r *rig) answer {
				stream, err := r.dialGRPC(t).NewStream(t.Context(), bidi, "/s/m")
				if err != nil {
					t.Fatal(err)
				}
				var got error
				for range 2 {
					message := []byte("thought")
					_ = stream.SendMsg(&message)
					if got = stream.RecvMsg(&message); got != nil {
						break
					}
					time.Sleep(3 * short.Std() / 2)
				}
				if (got != nil) != test.ends {
					t.Errorf("got %v, want an end: %v", got, test.ends)
				}
				if err := stream.CloseSend(); err != nil {
					t.Error(err)
				}
				if err := stream.RecvMsg(new([]byte)); got == nil && !errors.Is(err, io.EOF) {
					t.Errorf("at the end: %v", err)
				}

				return answer{}
			})
			if verdict.Bad != 0 {
				t.Errorf("%+v", verdict)
			}
		})
	}
}

// TestHalfClosedCallIsTheBackendsToEnd has a backend that falls silent once its caller has said everything.
func TestHalfClosedCallIsTheBackendsToEnd(t *testing.T) {
	t.Parallel()
	backend := httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = w.Write(make([]byte, 5)) // an empty message
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	_, verdict, _ := judged(t, backend, func(s *Settings, _ *GateSettings) { s.Timeouts.StreamIdle = short }, func(r *rig) answer {
		stream, err := r.dialGRPC(t).NewStream(t.Context(), bidi, "/s/m")
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(new([]byte)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * short.Std()) // an open call has time
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := stream.RecvMsg(new([]byte)); err == nil || errors.Is(err, io.EOF) || time.Since(begun) < short.Std()/2 {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}

		return answer{}
	})
	if verdict != (circuit.Tally{Bad: 1}) {
		t.Errorf("%+v", verdict)
	}
}
