package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// repository is a fake of an Open Inference Protocol server with model a, which can be unloaded and loaded in another version, and model b, which loads for ever.
type repository struct {
	mu      sync.Mutex
	loaded  bool
	version int
	// synthetic counts our inferences of each version.
	synthetic map[int]int
}

func (f *repository) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.URL.Path {
	case "/v2":
		_, _ = io.WriteString(w, `{"name":"fake","version":"1","extensions":[]}`)
	case "/v2/health/ready":
		w.WriteHeader(http.StatusServiceUnavailable) // b is loading
	case "/v2/models/a/ready":
		if !f.loaded {
			w.WriteHeader(http.StatusBadRequest)
		}
	case "/v2/models/a":
		_, _ = fmt.Fprintf(w, `{"name":"a","versions":["%d"],"platform":"p","inputs":[{"name":"x","datatype":"FP32","shape":[1]}]}`, f.version)
	case "/v2/models/a/infer":
		if !f.loaded {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "unavailable")

			return
		}
		if r.Header.Get("X-Pilotlight-Synthetic") != "" {
			f.synthetic[f.version]++
		}
		_, _ = io.WriteString(w, `{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[1]}]}`)
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

func (f *repository) set(loaded bool, version int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loaded, f.version = loaded, version
}

func (f *repository) warmed(version int) int {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.synthetic[version]
}

// TestC33AndC34ModelUnloadedAndReloaded goes through both; C35 all the while: the server as a whole is not ready, since another model loads.
func TestC33AndC34ModelUnloadedAndReloaded(t *testing.T) {
	server := &repository{loaded: true, version: 1, synthetic: map[int]int{}}
	backend := httptest.NewServer(server)
	t.Cleanup(backend.Close)
	p := freePorts(t)
	start(t, "run", "-c", p.configure(t, "workers: 1, http: '"+strings.TrimPrefix(backend.URL, "http://")+"'",
		"models: [{name: a}, {name: b, required: false}]\nhealth: {interval: 100ms}\nwarmup: {steps: [{name: up, wait: {}}, {name: shapes, needs: [up], infer: {until: 5}}]}\n"))
	ready := p.readyz() + "?model=a"
	until(t, ready, http.StatusOK)
	until(t, p.readyz(), http.StatusOK) // b is not required, and its hanging keeps nobody
	if status, _ := get(t, p.readyz()+"?model=b"); status != http.StatusServiceUnavailable {
		t.Errorf("model b is %d although it loads for ever", status)
	}
	users := trickle(t, "http://"+p.data+"/v2/models/a/infer")
	server.set(false, 1)
	until(t, p.readyz(), http.StatusServiceUnavailable)
	server.set(true, 2)
	until(t, p.readyz(), http.StatusOK)
	if server.warmed(1) != 5 || server.warmed(2) != 5 {
		t.Errorf("inferences: %d of version 1, %d of version 2", server.warmed(1), server.warmed(2))
	}
	// Loaded anew without being away for as long as anybody could see.
	server.set(true, 3)
	deadline := time.Now().Add(20 * time.Second)
	for server.warmed(3) < 5 && time.Now().Before(deadline) {
		pause(t.Context())
	}
	until(t, p.readyz(), http.StatusOK)
	if server.warmed(3) != 5 {
		t.Errorf("%d inferences of version 3", server.warmed(3))
	}
	if sent, failed := users(); sent < 5 || failed > 0 {
		t.Errorf("%d of %d users failed while versions changed", failed, sent)
	}
}

// trickle lets users ask one after the other, every 2 ms, until the function that it returns is called, which says how many there were and how many got no answer of the model.
func trickle(t *testing.T, url string) (end func() (sent, failed int)) {
	t.Helper()
	stop := make(chan struct{})
	var users sync.WaitGroup
	var sent, failed int
	users.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			sent++
			if status, _ := post(t, url, `{}`); status != http.StatusOK {
				failed++
			}
		}
	})

	return func() (int, int) {
		close(stop)
		users.Wait()

		return sent, failed
	}
}
