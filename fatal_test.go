package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestPoisonedBackendIsFatalAndOtherFailuresAreNot has a server whose every answer is a 500 from some moment on: with the text of a poisoned CUDA context, and as the control
// with that of a full memory, which passes.
func TestPoisonedBackendIsFatalAndOtherFailuresAreNot(t *testing.T) {
	for _, test := range []struct {
		name, text, code string
		restart          int
	}{
		{"poisoned", "CUDA error: an illegal memory access was encountered", "fatal_backend", http.StatusServiceUnavailable},
		{"control: out of memory", "CUDA out of memory", "breaker_open", http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sick atomic.Bool
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/health":
				case r.URL.Path != "/predict":
					http.NotFound(w, r)
				case sick.Load():
					http.Error(w, test.text, http.StatusInternalServerError)
				default:
					_, _ = io.WriteString(w, `{"y":1}`)
				}
			}))
			t.Cleanup(backend.Close)
			sample := sampleFile(t, "POST /predict\n\n{\"x\":1}")
			p := freePorts(t)
			start(t, "run", "-c", p.configure(t, "type: http, workers: 1, http: '"+strings.TrimPrefix(backend.URL, "http://")+"'",
				"health: {restart_backend: on-fatal, restart_grace: 0s}\nwarmup: {sample: '"+sample+"'}\n"))
			until(t, p.readyz(), http.StatusOK)
			sick.Store(true)
			for range 100 { // 20 are enough
				get(t, "http://"+p.data+"/predict")
			}
			until(t, p.readyz(), http.StatusServiceUnavailable)
			if _, said := get(t, p.readyz()); !strings.Contains(said, "unhealthy ("+test.code) {
				t.Errorf("the pod says %s, expected %s", said, test.code)
			}
			if status, said := get(t, "http://"+p.health+"/livez/backend"); status != test.restart {
				t.Errorf("/livez/backend says %d %s, expected %d", status, said, test.restart)
			}
			sick.Store(false) // it was restarted, or it healed
			until(t, p.readyz(), http.StatusOK)
			if _, said := get(t, p.readyz()); strings.Contains(said, test.code) {
				t.Errorf("healed, and the pod says %s", said)
			}
		})
	}
}
