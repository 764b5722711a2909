package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// sixteen is a longPlan that counts the synthetic requests with a batch of 16, which no plan is derived with.
type sixteen struct {
	longPlan

	warmed atomic.Int64
}

func (s *sixteen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("X-Pilotlight-Synthetic") != "" && strings.Contains(string(body), `"shape":[16,2]`) {
		s.warmed.Add(1)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.longPlan.ServeHTTP(w, r)
}

// TestTheNextStartWarmsWhatUsersSent sends requests of an unusual shape, full of secrets, and starts again: with the file, and without.
func TestTheNextStartWarmsWhatUsersSent(t *testing.T) {
	server := &sixteen{}
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	p, file := freePorts(t), filepath.Join(t.TempDir(), "shapes.json")
	backend := "workers: 1, http: " + strings.TrimPrefix(listener.URL, "http://")
	const more = "readiness: {ready_after: all}\ndrain: {settle: 0s}\nwarmup: {record: ''"
	config := p.configure(t, backend, more+", record_shapes: {file: '"+file+"'}}\n")
	first := start(t, "run", "-c", config)
	until(t, p.readyz(), http.StatusOK)
	send := func(path, body string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.data+path+"?key=SECRET", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer SECRET")
		answer, err := plain.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", path, answer.Status)
		}
	}
	for range 5 {
		send("/v2/models/m/infer", `{"id":"SECRET","inputs":[{"name":"x","datatype":"FP32","shape":[16,2],"data":[1,2]}]}`)
	}
	send("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"SECRET"}],"max_tokens":8}`) // no request that this server type takes
	first.signal(syscall.SIGTERM)
	if code := first.exit(); code != 0 || server.warmed.Load() != 0 {
		t.Fatalf("exit %d, %d warming requests of the users' shape before anybody knew it", code, server.warmed.Load())
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "SECRET") || !strings.Contains(string(text), `"batch":16`) {
		t.Fatalf("the file says %q (%v), expected the batch and no secret", text, err)
	}

	typed := p.configure(t, "type: oip, "+backend, more+", record_shapes: {file: '"+file+"'}}\n")
	export := start(t, "shapes", "export", "-c", typed)
	if code := export.exit(); code != 0 {
		t.Fatalf("export: exit %d", code)
	}
	if plan := export.printed(); !strings.Contains(plan, "% of the requests\n") || !strings.Contains(plan, "batch: [16]") || strings.Contains(plan, "chat") {
		t.Errorf("exported %q, expected the batch with its share and nothing that the server type does not take", plan)
	}
	if validate := start(t, "validate", "-c", p.configure(t, "type: oip, "+backend, export.printed())); validate.exit() != 0 {
		t.Errorf("what was exported is refused: %s", validate.printed())
	}
	if whole := start(t, "shapes", "export", file); whole.exit() != 0 || !strings.Contains(whole.printed(), "endpoint: [chat]") {
		t.Errorf("by the name of the file alone: %s", whole.printed())
	}

	for _, known := range []bool{false, true} {
		if !known {
			config = p.configure(t, backend, more+"}\n")
		} else {
			config = typed
		}
		again := start(t, "run", "-c", config)
		until(t, p.readyz(), http.StatusOK)
		if warmed := server.warmed.Swap(0); (warmed > 0) != known {
			t.Errorf("%d warming requests of the users' shape, file: %t", warmed, known)
		}
		again.signal(syscall.SIGTERM)
		again.exit()
	}
}
