package coldstart

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// Relay stands in front of a backend and can simulate the fault that health endpoints do not see: on demand it swallows inferences
// and never answers them, while everything else, health included, is answered by the backend as before.
type Relay struct {
	forward *httputil.ReverseProxy

	mu sync.Mutex
	// healed is open while the fault lasts; nil while there is none.
	healed chan struct{}
}

// NewRelay returns a Relay to the backend at target that simulates no fault yet.
func NewRelay(target *url.URL) *Relay {
	return &Relay{forward: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
	}}
}

// Hang starts the fault.
func (r *Relay) Hang() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.healed == nil {
		r.healed = make(chan struct{})
	}
}

// Heal ends the fault; swallowed requests are answered with a 500.
func (r *Relay) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.healed != nil {
		close(r.healed)
		r.healed = nil
	}
}

// ServeHTTP implements [http.Handler].
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	healed := r.healed
	r.mu.Unlock()
	if healed == nil || !strings.HasSuffix(req.URL.Path, "/infer") {
		r.forward.ServeHTTP(w, req)

		return
	}
	// The body is read, so that the caller's leaving is noticed.
	_, _ = io.Copy(io.Discard, req.Body)
	select {
	case <-healed:
	case <-req.Context().Done():
	}
	http.Error(w, "swallowed by the simulated fault", http.StatusInternalServerError)
}
