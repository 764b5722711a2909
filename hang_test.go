package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hangingBackend is a server whose health is 200 all the time, and which accepts requests and answers none while hangs is true. The sample is a file with a request for it.
func hangingBackend(tb testing.TB) (address, sample string, hangs *atomic.Bool) {
	tb.Helper()
	hangs = &atomic.Bool{}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
		case "/predict":
			_, _ = io.Copy(io.Discard, r.Body)
			if hangs.Load() {
				<-r.Context().Done()

				return
			}
			_, _ = io.WriteString(w, `{"y":1}`)
		default:
			http.NotFound(w, r)
		}
	}))
	tb.Cleanup(backend.Close)
	sample = filepath.Join(tb.TempDir(), "sample")
	if err := os.WriteFile(sample, []byte("POST /predict\n\n{\"x\":1}"), 0o600); err != nil {
		tb.Fatal(err)
	}

	return strings.TrimPrefix(backend.URL, "http://"), sample, hangs
}

// usersFirst has a user's request answered: only then does the silence of another one mean something.
func usersFirst(tb testing.TB, p ports) {
	tb.Helper()
	answer, err := plain.Post("http://"+p.data+"/predict", "application/json", strings.NewReader(`{"x":2}`))
	if err != nil {
		tb.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		tb.Fatalf("a user's request before the hang: status %d", answer.StatusCode)
	}
}

// TestC25HealthyServerThatAnswersNobodyIsStalled has a server whose health is 200 all the time, and which from some moment on accepts requests and answers none.
func TestC25HealthyServerThatAnswersNobodyIsStalled(t *testing.T) {
	backend, sample, hangs := hangingBackend(t)
	p := freePorts(t)
	start(t, "run", "-c", p.configure(t, "type: http, workers: 1, http: '"+backend+"'",
		"health: {interval: 200ms, timeout: 500ms}\ncircuit: {stalled_after: 1s}\nwarmup: {sample: '"+sample+"'}\n"))
	until(t, p.readyz(), http.StatusOK)
	usersFirst(t, p)
	// The control: as long as it answers, it is ready.
	<-time.After(time.Second)
	if status, said := get(t, p.readyz()); status != http.StatusOK {
		t.Fatalf("a server that answers is not ready: %s", said)
	}
	hangs.Store(true)
	left := make(chan struct{})
	patience, leave := context.WithCancel(t.Context())
	go func() {
		defer close(left)
		request, err := http.NewRequestWithContext(patience, http.MethodPost, "http://"+p.data+"/predict", strings.NewReader(`{"x":2}`))
		if err != nil {
			return
		}
		if answer, err := plain.Do(request); err == nil {
			_ = answer.Body.Close()
		}
	}()
	begin := time.Now()
	until(t, p.readyz(), http.StatusServiceUnavailable)
	took := time.Since(begin)
	if _, said := get(t, p.readyz()+"?verbose"); !strings.Contains(said, "unhealthy") || !strings.Contains(said, "stalled") {
		t.Errorf("the pod says %s", said)
	}
	if took > 15*time.Second {
		t.Errorf("it took %v to notice", took)
	}
	if status, _ := get(t, "http://"+p.health+"/livez"); status != http.StatusOK {
		t.Error("the backend's hanging took our own liveness along")
	}
	// It heals by itself, by a synthetic request.
	hangs.Store(false)
	leave()
	until(t, p.readyz(), http.StatusOK)
	<-left
}

// TestC25RestartIsAskedForWhereTheOperatorAllowsIt has three Pilotlights before one server that hangs: only the one that may ask, and whose backend's grace is over, does.
// Each Pilotlight is younger than the grace that is over: the backend's own start counts.
func TestC25RestartIsAskedForWhereTheOperatorAllowsIt(t *testing.T) {
	backend, sample, hangs := hangingBackend(t)
	tests := []struct {
		name, policy string
		expected     int
		says         string
	}{
		{"default", "", http.StatusOK, "no restart is ever asked for"},
		{"only after fatal errors", "restart_backend: on-fatal, restart_grace: 0s, ", http.StatusOK, "unhealthy, which is no reason"},
		{"within the grace", "restart_backend: on-stall, restart_grace: 24h, ", http.StatusOK, "stalled, and within its grace"},
		{"grace is over", "restart_backend: on-stall, restart_grace: 10ms, ", http.StatusServiceUnavailable, "stalled"},
	}
	all := make([]ports, len(tests))
	for i, test := range tests {
		all[i] = freePorts(t)
		start(t, "run", "-c", all[i].configure(t, "type: http, workers: 1, http: '"+backend+"'",
			"health: {"+test.policy+"interval: 200ms, timeout: 500ms}\ncircuit: {stalled_after: 1s}\nwarmup: {sample: '"+sample+"'}\n"))
	}
	for i, test := range tests {
		until(t, all[i].readyz(), http.StatusOK)
		usersFirst(t, all[i])
		if status, said := get(t, "http://"+all[i].health+"/livez/backend"); status != http.StatusOK {
			t.Errorf("%s: healthy, and /livez/backend says %d %s", test.name, status, said)
		}
	}
	hangs.Store(true)
	patience, leave := context.WithCancel(t.Context())
	var users sync.WaitGroup
	for i := range all {
		users.Go(func() {
			request, err := http.NewRequestWithContext(patience, http.MethodPost, "http://"+all[i].data+"/predict", strings.NewReader(`{"x":2}`))
			if err != nil {
				return
			}
			if answer, err := plain.Do(request); err == nil {
				_ = answer.Body.Close()
			}
		})
	}
	for i, test := range tests {
		until(t, all[i].readyz(), http.StatusServiceUnavailable)
		if status, said := get(t, "http://"+all[i].health+"/livez/backend"); status != test.expected || !strings.Contains(said, test.says) {
			t.Errorf("%s: /livez/backend says %d %s, expected %d and %q", test.name, status, said, test.expected, test.says)
		}
		if status, _ := get(t, "http://"+all[i].health+"/livez"); status != http.StatusOK {
			t.Errorf("%s: our own liveness says %d", test.name, status)
		}
	}
	hangs.Store(false)
	leave()
	users.Wait()
	for i, test := range tests {
		until(t, all[i].readyz(), http.StatusOK)
		if status, said := get(t, "http://"+all[i].health+"/livez/backend"); status != http.StatusOK {
			t.Errorf("%s: healed, and /livez/backend says %d %s", test.name, status, said)
		}
	}
}
