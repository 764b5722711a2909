package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestABackendThatIsLoadingAfterAllIsHeldFor has a server that says "ready" and, to the first user, that it is loading, for a second. As the control, another one says so
// of what a caller sent, while it serves everybody else.
func TestABackendThatIsLoadingAfterAllIsHeldFor(t *testing.T) {
	t.Parallel()
	var until503 atomic.Pointer[time.Time]
	var synthetic atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		ours := r.Header.Get("X-Pilotlight-Synthetic") != ""
		switch end := until503.Load(); {
		case r.URL.Path == "/health":
		case r.URL.Path != "/predict":
			http.NotFound(w, r)
		case bytes.Contains(body, []byte("bad image")):
			http.Error(w, "error loading image", http.StatusServiceUnavailable)
		case end == nil && !ours:
			later := time.Now().Add(time.Second)
			until503.Store(&later)

			fallthrough
		case end != nil && time.Now().Before(*end):
			http.Error(w, "Loading model", http.StatusServiceUnavailable)
		default:
			if ours {
				synthetic.Add(1)
			}
			_, _ = w.Write(body)
		}
	}))
	t.Cleanup(backend.Close)
	sample := sampleFile(t, "POST /predict\n\n{\"x\":1}")
	p := freePorts(t)
	start(t, "run", "-c", p.configure(t, "type: http, workers: 1, http: '"+strings.TrimPrefix(backend.URL, "http://")+"'",
		"warmup: {sample: '"+sample+"', steps: [{name: up, wait: {}}, {name: shapes, needs: [up], infer: {until: 5}}]}\n"))
	until(t, p.readyz(), http.StatusOK)
	before := synthetic.Load()
	if status, said := post(t, "http://"+p.data+"/predict", `{"user":1}`); status != http.StatusOK || said != `{"user":1}` {
		t.Errorf("the user got %d %s", status, said)
	}
	until(t, p.readyz(), http.StatusOK)
	if again := synthetic.Load() - before; again < 5 {
		t.Errorf("%d synthetic requests after the backend had loaded, expected the plan's 5", again)
	}
	before = synthetic.Load()
	for range 3 {
		if status, said := post(t, "http://"+p.data+"/predict", `{"user":"bad image"}`); status != http.StatusServiceUnavailable || !strings.Contains(said, "error loading image") {
			t.Errorf("the user with the bad image got %d %s", status, said)
		}
		if status, said := get(t, p.readyz()); status != http.StatusOK {
			t.Errorf("control: a bad image took the pod out: %d %s", status, said)
		}
	}
	if asked := synthetic.Load() - before; asked > 3 {
		t.Errorf("control: %d synthetic requests for three bad images", asked)
	}
}

func post(t *testing.T, url, body string) (status int, said string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}

	return res.StatusCode, string(text)
}
