package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// unloading is a fake of Ollama: it loads its model for the first request, in 300 ms, and unloads it after a second without one.
type unloading struct {
	mu    sync.Mutex
	last  time.Time
	loads int
	// order is who asked for an inference: "us" for a synthetic request, or "user".
	order []string
}

func (u *unloading) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	defer u.mu.Unlock()
	switch r.URL.Path {
	case "/api/version":
		_, _ = io.WriteString(w, `{"version":"0.12.3"}`)
	case "/api/tags":
		_, _ = io.WriteString(w, `{"models":[{"name":"m:latest","digest":"d"}]}`)
	case "/api/ps":
		list := ""
		if u.loaded() {
			list = `{"name":"m:latest"}`
		}
		_, _ = io.WriteString(w, `{"models":[`+list+`]}`)
	case "/api/generate":
		if !u.loaded() {
			u.loads++
			<-time.After(300 * time.Millisecond)
		}
		who := "user"
		if r.Header.Get("X-Pilotlight-Synthetic") != "" {
			who = "us"
		}
		u.order = append(u.order, who)
		u.last = time.Now()
		if strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, "{\"response\":\"a\",\"done\":false}\n")
		}
		_, _ = io.WriteString(w, "{\"response\":\"b\",\"done\":true}\n")
	default:
		http.NotFound(w, r)
	}
}

func (u *unloading) loaded() bool { return time.Since(u.last) < time.Second }

func (u *unloading) seen() (loads int, order []string) {
	u.mu.Lock()
	defer u.mu.Unlock()

	return u.loads, u.order
}

// TestC32UnloadedModelIsLoadedForUsersOnly has a server that unloads its model, and may: nothing of ours loads it before somebody asks, and then the
// request is held until the model is warm.
func TestC32UnloadedModelIsLoadedForUsersOnly(t *testing.T) {
	server := &unloading{}
	backend := httptest.NewServer(server)
	t.Cleanup(backend.Close)
	p := freePorts(t)
	start(t, "run", "-c", p.configure(t, "http: '"+strings.TrimPrefix(backend.URL, "http://")+"', idle_unload: allow",
		"models: [{name: m}]\nhealth: {interval: 100ms}\nwarmup: {trigger: first-request, steps: [{name: shapes, infer: {until: 3, grid: {endpoint: [native], input_tokens: [4], temperature: [0], stream: [true]}}}]}\n"))
	for round := range 2 {
		idle := func() bool {
			_, said := get(t, p.readyz()+"?verbose")

			return strings.HasPrefix(said, "ok: idle")
		}
		deadline := time.Now().Add(20 * time.Second)
		for !idle() {
			if time.Now().After(deadline) {
				_, said := get(t, p.readyz()+"?verbose")
				t.Fatalf("round %d: the pod is not idle: %s", round, said)
			}
			pause(t.Context())
		}
		loads, order := server.seen()
		<-time.After(500 * time.Millisecond) // several checks
		if again, _ := server.seen(); again != loads || loads != round {
			t.Fatalf("round %d: %d loads, then %d: checks load nothing", round, loads, again)
		}
		before := len(order)
		answer, err := plain.Post("http://"+p.data+"/api/generate", "application/json", strings.NewReader(`{"model":"m","prompt":"a","stream":false}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		loads, order = server.seen()
		if answer.StatusCode != http.StatusOK || loads != round+1 || len(order) < before+4 || order[before] != "us" || order[before+3] != "user" {
			t.Errorf("round %d: status %d, %d loads, inferences by %v", round, answer.StatusCode, loads, order[before:])
		}
	}
}
