package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func limitBody(size units.Size) func(*Settings, *GateSettings) {
	return func(s *Settings, _ *GateSettings) { s.Limits.Body = size }
}

// TestC09MessagesAreLimitedByUsAlone sends 33 MiB both ways with the default limits, and then with one of 8 MiB.
func TestC09MessagesAreLimitedByUsAlone(t *testing.T) {
	t.Parallel()
	large := []byte(strings.Repeat("m", 33<<20))
	for _, limit := range []units.Size{DefaultLimits().Body, 8 << 20} {
		_, verdict, suspected := judged(t, grpcBackend(t), limitBody(limit), func(r *rig) answer {
			conn := r.dialGRPC(t)
			reply := []byte(nil)
			err := conn.Invoke(t.Context(), "/s/m", &large, &reply)
			if limit == 0 {
				if err != nil || len(reply) != len(large) {
					t.Errorf("by default: %d bytes, %v", len(reply), err)
				}

				return answer{}
			}
			if s := status.Convert(err); s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "limits.body is 8MiB") {
				t.Errorf("with a limit of 8 MiB: %v", err)
			}
			before := r.handler.clients.open.Load()
			// The limit is for each message: many that fit may follow one another, on the same connection.
			stream, err := conn.NewStream(t.Context(), bidi, "/s/m")
			if err != nil {
				t.Fatal(err)
			}
			message := large[:5<<20]
			for range 3 {
				if err := stream.SendMsg(&message); err != nil {
					t.Fatal(err)
				}
				if err := stream.RecvMsg(&reply); err != nil || len(reply) != len(message) {
					t.Fatalf("a message that fits: %d bytes, %v", len(reply), err)
				}
			}
			// The answer has begun, so its trailers say it.
			if err := stream.SendMsg(&large); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			err = stream.RecvMsg(&reply)
			if s := status.Convert(err); s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "limits.body is 8MiB") {
				t.Errorf("in mid-call: %v", err)
			}
			question := []byte("q")
			if err := conn.Invoke(t.Context(), "/s/m", &question, &reply); err != nil {
				t.Errorf("the connection is of no use any more: %v", err)
			}
			if now := r.handler.clients.open.Load(); now != before {
				t.Errorf("%d connections, there were %d", now, before)
			}

			return answer{}
		})
		want := circuit.Tally{Good: 1}
		if limit > 0 {
			want = circuit.Tally{Good: 2, None: 1}
		}
		if verdict != want || suspected != 0 {
			t.Errorf("limit %s: %+v, want %+v; suspected %d times", limit, verdict, want, suspected)
		}
	}
}

func TestBodiesBeyondTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	for _, test := range []struct {
		name   string
		length int64
		known  bool
		held   bool
		status int
	}{
		{"known, fits", limit, true, false, http.StatusOK},
		{"known, a byte too much", limit + 1, true, false, http.StatusRequestEntityTooLarge},
		{"known, a byte too much, held", limit + 1, true, true, http.StatusRequestEntityTooLarge},
		{"unknown, fits", limit, false, false, http.StatusOK},
		{"unknown, a byte too much", limit + 1, false, false, http.StatusRequestEntityTooLarge},
		{"unknown, far too much", 20 << 20, false, false, http.StatusRequestEntityTooLarge},
		{"unknown, too much for memory as well, held", 20 << 20, false, true, http.StatusRequestEntityTooLarge},
	} {
		for protocol, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
			t.Run(protocol+" "+test.name, func(t *testing.T) {
				t.Parallel()
				var seen int64
				done := make(chan struct{}, 1)
				backend := httpBackend(t, func(_ http.ResponseWriter, r *http.Request) {
					seen, _ = io.Copy(io.Discard, r.Body)
					done <- struct{}{}
				})
				breaker := circuit.New(circuit.Settings{Config: circuit.DefaultConfig()})
				r := socketRig(t, backend, func(s *Settings, g *GateSettings) {
					s.Limits.Body, s.Breaker = limit, breaker
					g.Hold.MaxStreamBody = 2 * limit
				})
				if !test.held {
					open(r.gate)
				}
				client := r.client
				if h2 {
					client = overH2C(t)
				}
				request, err := http.NewRequest(http.MethodPost, "http://"+r.front+"/", io.LimitReader(endless{}, test.length))
				if err != nil {
					t.Fatal(err)
				}
				request.ContentLength = -1
				if test.known {
					request.ContentLength = test.length
				}
				res, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				if res.StatusCode != test.status {
					t.Fatalf("got %d, want %d", res.StatusCode, test.status)
				}
				if test.status == http.StatusOK {
					shut(res.Body)
					if <-done; seen != test.length {
						t.Errorf("the backend got %d bytes", seen)
					}

					return
				}
				if reason, detail := problemOf(t, res); reason != "body_limit" || detail != "limits.body is 64KiB" {
					t.Errorf("%s, %s", reason, detail)
				}
				until(t, "quiet", func() bool { return r.quiet() && breaker.Snapshot().InFlight == 0 })
				if verdicts := breaker.Snapshot().Window; verdicts.Good+verdicts.Bad != 0 {
					t.Errorf("the breaker learned %+v", verdicts)
				}
			})
		}
	}
}

// endless is a body of as many bytes as anybody reads.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestABodyTooLargeIsNotReadFirst announces a body and sends none of it.
func TestABodyTooLargeIsNotReadFirst(t *testing.T) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, func(http.ResponseWriter, *http.Request) {}), limitBody(1<<20))
	_, answers := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1048577\r\n\r\n")
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, " 413 ") {
		t.Errorf("%q, %v", line, err)
	}
}

// TestABodyThatGrowsTooLargeAfterTheAnswerBegan is neither refused, which it is too late for, nor taken to be whole, nor held against the backend.
func TestABodyThatGrowsTooLargeAfterTheAnswerBegan(t *testing.T) {
	t.Parallel()
	backend := rawBackend(t, func(_ int, conn net.Conn, _ string, rest *bufio.Reader) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n")
		_, _ = io.Copy(io.Discard, rest)
	})
	got, verdict, suspected := judged(t, backend, limitBody(1000), func(r *rig) answer {
		conn, answers := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		early := make([]byte, 5)
		if _, err := io.ReadFull(res.Body, early); err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "%x\r\n%s\r\n", 1001, strings.Repeat("x", 1001))
		rest, err := io.ReadAll(res.Body)

		return answer{status: res.StatusCode, body: string(rest), err: err}
	})
	if got.status != http.StatusOK || got.err == nil || verdict != (circuit.Tally{Good: 1}) || suspected != 0 {
		t.Errorf("%+v, %+v, suspected %d times", got, verdict, suspected)
	}
}

func TestBodyLimitFindsEachMessageHoweverItIsCut(t *testing.T) {
	t.Parallel()
	call := "\x00\x00\x00\x00\x03abc\x01\x00\x00\x00\x00\x00\x00\x00\x00\x04"
	for size := 1; size <= len(call); size++ {
		for most, want := range map[int64]bool{3: true, 4: false} {
			limit := bodyLimit{most: most, messages: true}
			for rest := call; rest != ""; {
				n := min(size, len(rest))
				_ = limit.saw([]byte(rest[:n]), nil)
				rest = rest[n:]
			}
			if limit.over != want {
				t.Errorf("in pieces of %d a message of 4 bytes against a limit of %d: over is %v", size, most, limit.over)
			}
		}
	}
}

// TestARefusalReachesAClientThatSendsEverythingFirst has one that reads no answer before it has sent its last byte: closing on it would reset the connection.
func TestARefusalReachesAClientThatSendsEverythingFirst(t *testing.T) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }), limitBody(64<<10))
	open(r.gate)
	conn, answers := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 1<<20, strings.Repeat("x", 1<<20))
	for range 16 {
		if _, err := io.WriteString(conn, chunk); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = io.WriteString(conn, "0\r\n\r\n")
	res, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	if reason, _ := problemOf(t, res); reason != "body_limit" || !res.Close {
		t.Errorf("%s, closes: %v", reason, res.Close)
	}
}
