package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// reloading is a backend that says of its first requests that it is loading, and echoes the others. It says it in two pieces.
type reloading struct {
	refuses int64
	asked   atomic.Int64
}

func (b *reloading) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if b.asked.Add(1) <= b.refuses {
		w.WriteHeader(http.StatusServiceUnavailable)
		for _, piece := range []string{`{"error":{"message":"Lo`, `ading model"}}`} {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}

		return
	}
	_, _ = w.Write(body)
}

// TestARequestMeetsABackendThatIsLoading sends requests through a gate that passes, so that none is held before.
func TestARequestMeetsABackendThatIsLoading(t *testing.T) {
	t.Parallel()
	small, large := strings.Repeat("s", smallBody), strings.Repeat("l", smallBody+1)
	for _, test := range []struct {
		name, body string
		chunked    bool
		refuses    int64
		keep       bool // requeue_refused is false
		memory     int64
		holds      units.Size // of a body; 0: as much as by default
		status     int
		asked      int64
	}{
		{name: "no body", refuses: 1, status: 200, asked: 2},
		{name: "a small body is sent again whole", body: small, refuses: 1, status: 200, asked: 2},
		{name: "also one of unknown length", body: small, chunked: true, refuses: 1, status: 200, asked: 2},
		{name: "a larger one was not kept", body: large, refuses: 1, status: 503, asked: 1},
		{name: "nor a larger one of unknown length", body: large, chunked: true, refuses: 1, status: 503, asked: 1},
		{name: "nor one for which there is no memory", body: small, memory: 2*int64(len(small)) - 1, refuses: 1, status: 503, asked: 1},
		{name: "nor one that would not be held", body: small, holds: smallBody - 1, refuses: 1, status: 503, asked: 1},
		{name: "nor so much of one of unknown length", body: small, chunked: true, holds: 100, refuses: 1, status: 503, asked: 1},
		{name: "one that would just be held", body: small, holds: smallBody, refuses: 1, status: 200, asked: 2},
		{name: "once and not twice", body: small, refuses: 2, status: 503, asked: 2},
		{name: "not if that is not wished", body: small, keep: true, refuses: 1, status: 503, asked: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			perTransport(t, func(t *testing.T, transport Transport) {
				t.Helper()
				server := &reloading{refuses: test.refuses}
				breaker := circuit.New(circuit.Settings{Config: circuit.DefaultConfig()})
				var told atomic.Int64
				var gate *Gate
				r := socketRig(t, httpBackend(t, server.ServeHTTP), func(s *Settings, g *GateSettings) {
					s.Transport, s.Breaker, s.Hold.RequeueRefused = transport, breaker, !test.keep
					if test.holds > 0 {
						s.Hold.MaxBody, s.Hold.MaxStreamBody = test.holds, test.holds
						g.Hold.MaxBody, g.Hold.MaxStreamBody = test.holds, test.holds
					}
					if test.memory > 0 {
						g.Memory = test.memory
					}
					s.Unavailable = func(_ context.Context, loading bool) bool { // what the pod does, in short
						if !loading {
							t.Error("the words were not seen")
						}
						told.Add(1)
						gate.Hold()
						time.AfterFunc(20*time.Millisecond, func() { gate.Ramp(1) })

						return true
					}
				})
				gate = r.gate
				open(r.gate)
				var body io.Reader
				if test.body != "" {
					body = strings.NewReader(test.body)
				}
				if test.chunked {
					body = io.MultiReader(body)
				}
				got := r.send(t.Context(), http.MethodPost, "/", body)
				if got.status != test.status || server.asked.Load() != test.asked {
					t.Errorf("answered %d, asked %d times; expected %d and %d", got.status, server.asked.Load(), test.status, test.asked)
				}
				if test.status == http.StatusOK && got.body != test.body {
					t.Errorf("the body came back changed: %d bytes of %d", len(got.body), len(test.body))
				}
				if test.status != http.StatusOK && got.body != `{"error":{"message":"Loading model"}}` {
					t.Errorf("the answer was changed: %q", got.body)
				}
				if told.Load() != 1 {
					t.Errorf("told %d times", told.Load())
				}
				if tally := breaker.Snapshot().Window; tally.Bad > 0 {
					t.Errorf("the breaker holds it against the backend: %+v", tally)
				}
				if !r.quiet() {
					t.Errorf("left behind: %+v", r.gate.Snapshot())
				}
			})
		})
	}
}

// TestARequestThatAsksBeforeItSendsMeetsABackendThatIsLoading has a client that sends its body only when it is told to. The backend reads it and says that it is loading, or
// says so at once: then the body is still the client's, and comes while the request is held.
func TestARequestThatAsksBeforeItSendsMeetsABackendThatIsLoading(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		reads   bool
		body    string
		chunked bool
		holds   units.Size // of a body; 0: as much as by default
		status  int
	}{
		{"it reads a small body", true, strings.Repeat("s", smallBody), false, 0, 200},
		{"it reads nothing of a small body", false, strings.Repeat("s", smallBody), false, 0, 200},
		{"it reads nothing of a larger one", false, strings.Repeat("l", 4*smallBody), false, 0, 200},
		{"it reads nothing of one of unknown length", false, strings.Repeat("l", 4*smallBody), true, 0, 200},
		{"control: it reads a larger one, which was not kept", true, strings.Repeat("l", 4*smallBody), false, 0, 503},
		{"control: it reads nothing of one that is too large to be held", false, strings.Repeat("l", 4*smallBody), false, 3 * smallBody, 503},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			perTransport(t, func(t *testing.T, transport Transport) {
				t.Helper()
				var asked atomic.Int64
				var gate *Gate
				r := socketRig(t, httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
					if asked.Add(1) == 1 {
						if test.reads {
							_, _ = io.Copy(io.Discard, r.Body)
						}
						w.WriteHeader(http.StatusServiceUnavailable)
						_, _ = io.WriteString(w, "Loading model")

						return
					}
					body, _ := io.ReadAll(r.Body)
					_, _ = w.Write(body)
				}), func(s *Settings, g *GateSettings) {
					s.Transport = transport
					if test.holds > 0 {
						s.Hold.MaxBody, g.Hold.MaxBody = test.holds, test.holds
					}
					s.Unavailable = func(context.Context, bool) bool {
						gate.Hold()
						time.AfterFunc(20*time.Millisecond, func() { gate.Ramp(1) })

						return true
					}
				})
				gate = r.gate
				open(r.gate)
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: 30 * time.Second}}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.front+"/", strings.NewReader(test.body))
				if err != nil {
					t.Fatal(err)
				}
				if test.chunked {
					request.ContentLength = -1
				}
				request.Header.Set("Expect", "100-continue")
				answer, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = answer.Body.Close() }()
				body, err := io.ReadAll(answer.Body)
				want, times := test.body, int64(2)
				if test.status != http.StatusOK {
					want, times = "Loading model", 1
				}
				if err != nil || answer.StatusCode != test.status || string(body) != want || asked.Load() != times {
					t.Errorf("answered %d and %d bytes (%v), asked %d times; expected %d, %d bytes and %d", answer.StatusCode, len(body), err, asked.Load(), test.status, len(want), times)
				}
				until(t, "quiet", r.quiet)
			})
		})
	}
}

// TestAnother503IsWhatALookAtTheBackendSays has a backend that is unavailable and says no more. If it has become cold the request goes back to the line; as the control, if it
// has not, the answer is handed on, unchanged, and counts.
func TestAnother503IsWhatALookAtTheBackendSays(t *testing.T) {
	t.Parallel()
	said := strings.Repeat("out of everything ", 100)
	for _, test := range []struct {
		name   string
		cold   bool
		status int
		want   circuit.Tally
	}{
		{"cold", true, http.StatusOK, circuit.Tally{Good: 1, None: 1}},
		{"control: not cold", false, http.StatusServiceUnavailable, circuit.Tally{Bad: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				breaker := circuit.New(circuit.Settings{Config: circuit.DefaultConfig()})
				asked := 0
				r, end := memoryRig(t, func(w http.ResponseWriter, _ *http.Request) {
					if asked++; asked == 1 {
						w.WriteHeader(http.StatusServiceUnavailable)
						_, _ = io.WriteString(w, said)
					}
				}, func(s *Settings, _ *GateSettings) {
					s.Breaker = breaker
					s.Unavailable = func(_ context.Context, loading bool) bool { return !loading && test.cold }
				})
				defer end()
				open(r.gate)
				got := r.send(t.Context(), http.MethodPost, "/", strings.NewReader("x"))
				if got.status != test.status || (!test.cold && got.body != said) {
					t.Errorf("got %+v", got)
				}
				if tally := breaker.Snapshot().Window; tally != test.want {
					t.Errorf("the breaker saw %+v, expected %+v", tally, test.want)
				}
			})
		})
	}
}
