package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// streaming is a server that answers at once at /predict, and at /stream with a first half at once and the second when it is told to finish.
type streaming struct {
	*httptest.Server

	begun  chan struct{}
	finish chan struct{}
	sample string
}

func newStreaming(tb testing.TB) *streaming {
	tb.Helper()
	s := &streaming{begun: make(chan struct{}, 100), finish: make(chan struct{}), sample: filepath.Join(tb.TempDir(), "sample")}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
		case "/predict":
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, `{"y":1}`)
		case "/stream":
			_, _ = io.WriteString(w, "first ")
			_ = http.NewResponseController(w).Flush()
			s.begun <- struct{}{}
			select {
			case <-s.finish:
				_, _ = io.WriteString(w, "second")
			case <-r.Context().Done():
			}
		default:
			http.NotFound(w, r)
		}
	}))
	tb.Cleanup(s.Close)
	if err := os.WriteFile(s.sample, []byte("POST /predict\n\n{\"x\":1}"), 0o600); err != nil {
		tb.Fatal(err)
	}

	return s
}

// front starts a Pilotlight before it and waits until that is ready.
func (s *streaming) front(tb testing.TB, drain string) (ports, *program) {
	tb.Helper()
	p := freePorts(tb)
	of := start(tb, "run", "-c", p.configure(tb, "type: http, workers: 1, http: '"+strings.TrimPrefix(s.URL, "http://")+"'",
		"warmup: {sample: '"+s.sample+"'}\ndrain: "+drain+"\n"))
	until(tb, p.readyz(), http.StatusOK)

	return p, of
}

// said is an answer and when it came.
type said struct {
	status int
	body   string
	at     time.Time
}

// later asks in the background.
func later(tb testing.TB, url string) <-chan said {
	tb.Helper()
	answer := make(chan said, 1)
	go func() {
		status, body := get(tb, url)
		answer <- said{status, body, time.Now()}
	}()

	return answer
}

func TestDrainzWithoutADrainAnswersAndActsOnNothing(t *testing.T) {
	p, _ := newStreaming(t).front(t, "{settle: 0s}")
	began := time.Now()
	answer := <-later(t, "http://"+p.health+"/drainz")
	if took := answer.at.Sub(began); answer.status != http.StatusOK || answer.body != "no drain has begun\n" || took < drainExpected || took > drainExpected+2*time.Second {
		t.Errorf("after %s: %d %q", took, answer.status, answer.body)
	}
	if status, body := get(t, p.readyz()); status != http.StatusOK {
		t.Errorf("it took readiness away: %s", body)
	}
}

// TestDrainzWaitsForWhatIsInFlight has the hook of the backend's container ask before the drain begins.
func TestDrainzWaitsForWhatIsInFlight(t *testing.T) {
	for _, test := range []struct {
		name, drain, expected string
		finish                bool
		least                 time.Duration
	}{
		{"a stream ends after the settling", "{settle: 300ms, limit: 20s}", "drained\n", true, 300 * time.Millisecond},
		{"a stream never ends", "{settle: 100ms, limit: 1500ms}", "the limit has passed\n", false, 1500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newStreaming(t)
			p, pilotlight := server.front(t, test.drain)
			stream := later(t, "http://"+p.data+"/stream")
			<-server.begun
			hook := later(t, "http://"+p.health+"/drainz")
			began := time.Now()
			if status, body := p.act(t, pilotlight, "/drain"); status != http.StatusAccepted {
				t.Fatalf("POST /drain: %d %s", status, body)
			}
			if test.finish {
				select {
				case early := <-hook:
					t.Errorf("answered while a stream was under way: %+v", early)
				case <-time.After(time.Second):
				}
				close(server.finish)
			}
			answer := <-hook
			if took := answer.at.Sub(began); answer.status != http.StatusOK || answer.body != test.expected || took < test.least {
				t.Errorf("after %s: %d %q, expected %q after %s", took, answer.status, answer.body, test.expected, test.least)
			}
			if !test.finish {
				close(server.finish)
			}
			if got := <-stream; got.body != "first second" {
				t.Errorf("the stream was cut: %+v", got)
			}
		})
	}
}

// TestDrainzIsAnsweredBeforeTheProcessEnds has the hook ask a process that ends by a signal and has nothing to wait for but the settling.
func TestDrainzIsAnsweredBeforeTheProcessEnds(t *testing.T) {
	p, pilotlight := newStreaming(t).front(t, "{settle: 300ms, limit: 20s}")
	hook := later(t, "http://"+p.health+"/drainz")
	pilotlight.signal(syscall.SIGTERM)
	if answer := <-hook; answer.status != http.StatusOK || answer.body != "drained\n" {
		t.Errorf("got %+v", answer)
	}
	if code := pilotlight.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestC67NewRequestsAndStreamsOutliveTheSignal also has its control: the same stream, longer than the limit, is cut.
func TestC67NewRequestsAndStreamsOutliveTheSignal(t *testing.T) {
	for _, test := range []struct {
		name, drain string
		finishes    bool
	}{
		{"a stream within the limit", "{settle: 1s, limit: 20s}", true},
		{"control: a stream beyond the limit", "{settle: 1s, limit: 2s}", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newStreaming(t)
			p, pilotlight := server.front(t, test.drain)
			stream := later(t, "http://"+p.data+"/stream")
			<-server.begun
			began := time.Now()
			pilotlight.signal(syscall.SIGTERM)
			until(t, p.readyz(), http.StatusServiceUnavailable)
			served := 0
			for time.Since(began) < 700*time.Millisecond {
				if status, body := get(t, "http://"+p.data+"/predict"); status != http.StatusOK {
					t.Fatalf("a new request while settling: %d %s", status, body)
				}
				served++
				pause(t.Context())
			}
			if served == 0 {
				t.Error("no request was made while settling: this proves nothing")
			}
			if test.finishes {
				for { // until new connections are refused, which is after the settling
					if status, _ := get(t, "http://"+p.data+"/predict"); status == 0 {
						break
					}
					pause(t.Context())
				}
				close(server.finish)
			}
			if got := <-stream; (got.body == "first second") != test.finishes {
				t.Errorf("the stream ended with %+v, expected it to finish: %t", got, test.finishes)
			}
			if code := pilotlight.exit(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if !test.finishes {
				close(server.finish)
			}
		})
	}
}

func TestC67SecondSignalEndsAtOnce(t *testing.T) {
	server := newStreaming(t)
	p, pilotlight := server.front(t, "{settle: 20s, limit: 25s}")
	pilotlight.signal(syscall.SIGTERM)
	until(t, p.readyz(), http.StatusServiceUnavailable)
	began := time.Now()
	pilotlight.signal(syscall.SIGTERM)
	if code, took := pilotlight.exit(), time.Since(began); code != exitFailure || took > 5*time.Second {
		t.Errorf("exit code %d after %s", code, took)
	}
}

// TestC69BackendThatLeavesFirstHangsNobody is an ordinary sidecar, whose backend ends a moment after the signal.
func TestC69BackendThatLeavesFirstHangsNobody(t *testing.T) {
	const running = 3
	server := newStreaming(t)
	p, pilotlight := server.front(t, "{settle: 500ms, limit: 20s}")
	streams := make([]<-chan said, running)
	for i := range streams {
		streams[i] = later(t, "http://"+p.data+"/stream")
		<-server.begun
	}
	pilotlight.signal(syscall.SIGTERM)
	until(t, p.readyz(), http.StatusServiceUnavailable)
	_ = server.Listener.Close()
	server.CloseClientConnections()
	for _, stream := range streams {
		if got := <-stream; got.body == "first second" {
			t.Errorf("got a whole answer from a backend that is gone: %+v", got)
		}
	}
	began := time.Now()
	if code, took := pilotlight.exit(), time.Since(began); code != 0 || took > 10*time.Second {
		t.Errorf("exit code %d after %s", code, took)
	}
}

// TestC69DrainOnlyBeginsTheDrain is a native sidecar: its hook runs when the pod begins to end, the signal comes when the backend has ended, and until then the backend's work is served.
func TestC69DrainOnlyBeginsTheDrain(t *testing.T) {
	server := newStreaming(t)
	p, pilotlight := server.front(t, "{settle: 100ms, limit: 20s}")
	if status, body := p.act(t, pilotlight, "/drain"); status != http.StatusAccepted {
		t.Fatalf("POST /drain: %d %s", status, body)
	}
	until(t, p.readyz(), http.StatusServiceUnavailable)
	for began := time.Now(); time.Since(began) < 2*time.Second; pause(t.Context()) {
		if status, body := get(t, "http://"+p.data+"/predict"); status != http.StatusOK {
			t.Fatalf("%s after the hook: %d %s", time.Since(began), status, body)
		}
	}
	pilotlight.signal(syscall.SIGTERM)
	if code := pilotlight.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestC70JobEndsByTheQuitEndpoint has a job whose main container is done and tells the sidecar so.
func TestC70JobEndsByTheQuitEndpoint(t *testing.T) {
	server := newStreaming(t)
	p, pilotlight := server.front(t, "{settle: 0s, quit: true}")
	for _, authorization := range []string{"", "Bearer wrong"} {
		if status, body := p.post(t, "/quit", authorization); status != http.StatusUnauthorized {
			t.Errorf("with %q: %d %s", authorization, status, body)
		}
	}
	for _, port := range []string{p.health, p.data} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+port+"/quit", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := plain.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode < 400 {
			t.Errorf("/quit at %s, which is no admin port: %d", port, answer.StatusCode)
		}
	}
	if status, body := get(t, p.readyz()); status != http.StatusOK {
		t.Fatalf("who may not end it took readiness away: %s", body)
	}
	if status, body := p.act(t, pilotlight, "/quit"); status != http.StatusAccepted {
		t.Errorf("POST /quit: %d %s", status, body)
	}
	if code := pilotlight.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestC70QuitIsOffByDefault is the control, and ends as a native sidecar of a job does, by a signal.
func TestC70QuitIsOffByDefault(t *testing.T) {
	p, pilotlight := newStreaming(t).front(t, "{settle: 0s}")
	if status, body := p.act(t, pilotlight, "/quit"); status != http.StatusForbidden || !strings.Contains(body, "drain.quit") {
		t.Errorf("POST /quit: %d %s", status, body)
	}
	if status, body := get(t, p.readyz()); status != http.StatusOK {
		t.Errorf("it took readiness away: %s", body)
	}
	pilotlight.signal(syscall.SIGTERM)
	if code := pilotlight.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
