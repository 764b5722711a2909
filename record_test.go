package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// longPlan is a server of 40 ms an inference, so that a plan of eight batches takes longer than a restart may.
type longPlan struct {
	synthetic atomic.Int64
}

const longPlanGrid = "warmup: {steps: [{name: backend, wait: {}}, {name: shapes, needs: [backend], infer: {grid: {batch: [1, 2, 4, 8, 16, 32, 64, 128]}}}]}\n"

func (s *longPlan) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case r.URL.Path == "/v2":
		_, _ = io.WriteString(w, `{"name":"fake","version":"1","extensions":[]}`)
	case r.URL.Path == "/v2/repository/index":
		_, _ = io.WriteString(w, `[{"name":"m","version":"1","state":"READY"}]`)
	case strings.HasSuffix(r.URL.Path, "/infer"):
		if r.Header.Get("X-Pilotlight-Synthetic") != "" {
			s.synthetic.Add(1)
		}
		select {
		case <-time.After(40 * time.Millisecond):
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, `{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[0.5]}]}`)
	case strings.HasSuffix(r.URL.Path, "/ready"), r.URL.Path == "/v2/health/ready":
	default:
		_, _ = fmt.Fprint(w, `{"name":"m","inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]}],"outputs":[]}`)
	}
}

// listen serves at an address until the returned function is called.
func (s *longPlan) listen(t *testing.T, address string) (stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	stop = sync.OnceFunc(func() {
		_ = server.Close()
		<-ended
	})
	t.Cleanup(stop)

	return stop
}

// load sends requests by a few users until the test, or the returned function, ends it; refusals are theirs to bear.
func load(t *testing.T, url string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for ctx.Err() == nil {
				request, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}`))
				if answer, err := plain.Do(request); err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				}
				pause(ctx)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		users.Wait()
	})
	t.Cleanup(stop)

	return stop
}

// recorded waits for the record, which is written once the pod is ready.
func recorded(t *testing.T, by *program) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; pause(t.Context()) {
		if _, err := os.Stat(filepath.Join(by.runtime, "pilotlight", "warm.json")); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing was recorded")
		}
	}
}

// again starts Pilotlight in the runtime folder of one that was killed and returns what it took to be ready.
func again(t *testing.T, killed *program, p ports, config string) (*program, time.Duration) {
	t.Helper()
	began := time.Now()
	next := startIn(t, killed.runtime, "run", "-c", config)
	until(t, p.readyz(), http.StatusOK)

	return next, time.Since(began)
}

// TestAKilledPilotlightIsReadyAgainBesideAWarmBackend kills Pilotlight while users send requests. The controls are the same without a record, and with the record
// of a backend that has been started again: both take what warming takes.
func TestAKilledPilotlightIsReadyAgainBesideAWarmBackend(t *testing.T) {
	kill := func(of *program) {
		of.signal(syscall.SIGKILL)
		of.exit()
	}
	for _, record := range []bool{true, false} {
		t.Run(map[bool]string{true: "with a record", false: "without"}[record], func(t *testing.T) {
			t.Parallel()
			p, address, server := freePorts(t), freeAddress(t), &longPlan{}
			stop := server.listen(t, address)
			more := longPlanGrid
			if !record {
				more = strings.Replace(more, "{steps", `{record: "", steps`, 1)
			}
			config := p.configure(t, "http: "+address, more)
			began := time.Now()
			first := start(t, "run", "-c", config)
			until(t, p.readyz(), http.StatusOK)
			whole := time.Since(began)
			full := server.synthetic.Swap(0)
			load(t, "http://"+p.data+"/v2/models/m/infer")
			if record {
				recorded(t, first)
			}
			kill(first)
			second, took := again(t, first, p, config)
			t.Logf("first start %v with %d requests, restart %v with %d", whole, full, took, server.synthetic.Load())
			if record && took > 5*time.Second {
				t.Errorf("ready again after %v, expected less than 5 s", took)
			}
			if !record && took < whole/2 {
				t.Errorf("without a record ready again after %v, the first start took %v: the record proves nothing", took, whole)
			}
			if !record {
				return
			}
			if sent := server.synthetic.Load(); sent >= full/2 {
				t.Errorf("%d synthetic requests, the first start needed %d", sent, full)
			}
			_, body := get(t, "http://"+p.admin+"/statusz")
			if !strings.Contains(body, `"confirmed"`) {
				t.Errorf("/statusz shows no confirmed shape: %s", body)
			}

			// The record is fresh, but now the backend has been started again too.
			kill(second)
			stop()
			server.listen(t, address)
			server.synthetic.Store(0)
			_, took = again(t, second, p, config)
			t.Logf("with another process of the backend %v, %d requests", took, server.synthetic.Load())
			if sent := server.synthetic.Load(); sent < full/2 || took < whole/2 {
				t.Errorf("ready after %v and %d requests beside a restarted backend (%v and %d at first): the record was believed", took, sent, whole, full)
			}
		})
	}
}
