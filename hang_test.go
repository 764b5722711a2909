package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestC25HealthyServerThatAnswersNobodyIsStalled has a server whose health is 200 all the time, and which from some moment on accepts requests and answers none.
func TestC25HealthyServerThatAnswersNobodyIsStalled(t *testing.T) {
	var hangs atomic.Bool
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
	t.Cleanup(backend.Close)
	sample := filepath.Join(t.TempDir(), "sample")
	if err := os.WriteFile(sample, []byte("POST /predict\n\n{\"x\":1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := freePorts(t)
	start(t, "run", "-c", p.configure(t, "type: http, workers: 1, http: '"+strings.TrimPrefix(backend.URL, "http://")+"'",
		"health: {interval: 200ms, timeout: 500ms}\ncircuit: {stalled_after: 1s}\nwarmup: {sample: '"+sample+"'}\n"))
	until(t, p.readyz(), http.StatusOK)
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
