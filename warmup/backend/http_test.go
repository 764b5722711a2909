package backend_test

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

func TestHTTPNeverInventsARequest(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"http", "torchserve"} {
		dialect, err := backend.New(name, serve(t, fake{}, backend.ClientSettings{}), backend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		model, err := dialect.Describe(t.Context(), "m")
		if err != nil || !strings.Contains(model.NoRequest, "warmup.sample") {
			t.Errorf("%s: %+v, %v", name, model, err)
		}
		if _, err := dialect.Request(model, backend.Shape{}, 1); !errors.Is(err, backend.ErrNoRequest) {
			t.Errorf("%s: got %v, expected a refusal", name, err)
		}
	}
}

func TestHTTPReadiness(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		server fake
		path   string
		want   error
		ready  string
	}{
		{"configured", fake{"GET /up": {204, ""}}, "/up", nil, "/up"},
		{"configured, loading", fake{"GET /up": {503, ""}, "GET /health": {200, ""}}, "/up", backend.ErrNotYet, "/up"},
		{"configured, not there yet", fake{}, "/up", backend.ErrNotYet, "/up"},
		{"configured, moved away", fake{"GET /up": {302, ""}}, "/up", backend.ErrNotYet, "/up"},
		{"configured, forbidden", fake{"GET /up": {403, ""}}, "/up", backend.ErrCredentialsRefused, "/up"},
		{"found", fake{"GET /ready": {200, ""}, "GET /health": {500, ""}}, "", nil, "/ready"},
		{"found, loading", fake{"GET /health": {503, "loading"}}, "", backend.ErrNotYet, ""},
		{"none", fake{}, "", nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := backend.NewHTTP(serve(t, test.server, backend.ClientSettings{}), backend.Options{ReadyPath: test.path})
			if err := h.Ready(t.Context(), backend.DefaultModel); !errors.Is(err, test.want) {
				t.Errorf("got %v, expected %v", err, test.want)
			}
			if test.ready != "" {
				if _, ok := h.ReadyPath(test.ready); !ok {
					t.Errorf("%s is not answered truthfully", test.ready)
				}
			}
			if _, ok := h.ReadyPath("/predict"); ok {
				t.Error("/predict passes for a ready path")
			}
		})
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body = make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		_, _ = w.Write([]byte(`{"y":1}`))
	}), backend.ClientSettings{})
	file := filepath.Join(t.TempDir(), "sample")
	if err := os.WriteFile(file, []byte("POST /predict?a=1 HTTP/1.1\r\nHost: elsewhere\r\nContent-Type: application/x-thing\r\nX-Api: 2\r\nContent-Length: 99\r\n\r\n\x00binary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sample, err := backend.ReadSample(file)
	if err != nil {
		t.Fatal(err)
	}
	h := backend.NewHTTP(client, backend.Options{Sample: sample})
	request, err := h.Request(backend.Model{Name: "default"}, backend.Shape{}, 7)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check("infer", answer, backend.Expect{Finite: true}); err != nil {
		t.Error(err)
	}
	if got.URL.String() != "/predict?a=1" || got.Header.Get("X-Api") != "2" || got.Header.Get("Content-Type") != "application/x-thing" || got.Host == "elsewhere" || string(body) != "\x00binary\n" {
		t.Errorf("got %s %v of %s, %q", got.URL, got.Header, got.Host, body)
	}
	if got.Header.Get(backend.SyntheticHeader) == "" {
		t.Error("the sample is not marked")
	}
}

func TestSampleRefuses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                          "empty",
		"{\"x\": 1}":                "expected METHOD /path",
		"POST predict\n\n{}":        "expected METHOD /path",
		"post /predict\n\n{}":       "expected METHOD /path",
		"POST /a b\n\n":             "expected METHOD /path",
		"POST /predict\nnonsense\n": "headers",
	} {
		if _, err := backend.ParseSample([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, expected one that says %q", text, err, says)
		}
	}
	sample, err := backend.ParseSample([]byte("GET /predict"))
	if err != nil || sample.Method != http.MethodGet || sample.Body != nil {
		t.Errorf("a line alone: %+v, %v", sample, err)
	}
	if _, err := backend.ReadSample(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}

// TestC37BodyOfThePingCounts has TorchServe answer 200 whatever it means, and hide a dead model behind another one's workers.
func TestC37BodyOfThePingCounts(t *testing.T) {
	t.Parallel()
	workers := func(least string, states ...string) string {
		var list []string
		for _, state := range states {
			list = append(list, `{"id":"1","status":"`+state+`"}`)
		}

		return `[{"modelName":"m","modelVersion":"1.0","minWorkers":` + least + `,"workers":[` + strings.Join(list, ",") + `]}]`
	}
	tests := []struct {
		name, ping string
		status     int
		models     fake
		want       error
		says       string
	}{
		{"healthy", "Healthy", 200, fake{"GET /models/m": {200, workers("2", "READY", "READY")}}, nil, ""},
		{"healthy, no management API", "Healthy", 200, nil, nil, ""},
		{"unhealthy in a 200", "Unhealthy", 200, nil, backend.ErrNotYet, "Unhealthy"},
		{"unhealthy", "Unhealthy", 500, nil, backend.ErrNotYet, "Unhealthy"},
		{"partial, and nobody says whose workers are missing", "Partial Healthy", 200, nil, backend.ErrNotYet, "Partial Healthy"},
		{"partial, another model's workers are missing", "Partial Healthy", 200, fake{"GET /models/m": {200, workers("1", "READY")}}, nil, ""},
		{"healthy, 0 of 2 workers", "Healthy", 200, fake{"GET /models/m": {200, workers("2", "UNLOADING", "UNLOADING")}}, backend.ErrNotYet, "0 of 2 workers"},
		{"healthy, 1 of 2 workers", "Healthy", 200, fake{"GET /models/m": {200, workers("2", "READY")}}, backend.ErrNotYet, "1 of 2 workers"},
		{"healthy, no workers", "Healthy", 200, fake{"GET /models/m": {200, workers("0")}}, backend.ErrNotYet, "0 of 0 workers"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := fake{"GET /ping": {test.status, "{\n  \"status\": \"" + test.ping + "\"\n}"}}
			maps.Copy(server, test.models)
			dialect := backend.NewTorchServe(serve(t, server, backend.ClientSettings{}), backend.Options{})
			err := dialect.Ready(t.Context(), "m")
			if !errors.Is(err, test.want) || (err != nil && !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, expected %v that says %q", err, test.want, test.says)
			}
		})
	}
	for path, want := range map[string]bool{"/models": true, "/models/m": true, "/models/m/2.0": true, "/x/../models/m": true, "/predictions/m": false, "/ping": false} {
		if got := backend.NewTorchServe(nil, backend.Options{}).ControlPath(path); got != want {
			t.Errorf("%s: control %v", path, got)
		}
	}
}

// TestC32OllamaSaysWhatIsLoaded has a list that names models whether they are loaded or not.
func TestC32OllamaSaysWhatIsLoaded(t *testing.T) {
	t.Parallel()
	listed := reply{200, `{"models":[{"name":"a:latest"},{"name":"b:7b"}]}`}
	dialect := backend.NewOllama(serve(t, fake{"GET /api/tags": listed, "GET /api/ps": {200, `{"models":[{"name":"b:7b"}]}`}}, backend.ClientSettings{}))
	for model, want := range map[string]bool{"a": false, "a:latest": false, "b:7b": true, "b": false} {
		if got, err := dialect.Loaded(t.Context(), model); err != nil || got != want {
			t.Errorf("%s loaded: %v, %v", model, got, err)
		}
	}
	none := backend.NewOllama(serve(t, fake{"GET /api/tags": listed, "GET /api/ps": {200, `{"models":[]}`}}, backend.ClientSettings{}))
	if _, err := none.Models(t.Context()); !errors.Is(err, backend.ErrNotYet) || !strings.Contains(err.Error(), "name the one to load under models; the server has a:latest, b:7b") {
		t.Errorf("got %v", err)
	}
}

// TestStreamsAreTimedByTheirEvents has pauses that are long for a loopback; a comment and [DONE] are no tokens.
func TestStreamsAreTimedByTheirEvents(t *testing.T) {
	t.Parallel()
	const pause = 30 * time.Millisecond
	for name, lines := range map[string][]string{
		"events":     {": keep-alive\n\n", "data: {\"a\":1}\n\n", "data: {\"a\":2}\n\n", "data: {\"a\":3}\n\n", "data: [DONE]\n\n"},
		"JSON lines": {"\n", "{\"a\":1}\n", "{\"a\":2}\n", "{\"done\":true}\n", "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for _, line := range lines {
					_, _ = w.Write([]byte(line))
					_ = http.NewResponseController(w).Flush()
					<-time.After(pause)
				}
			}), backend.ClientSettings{})
			answer, err := client.Do(t.Context(), backend.Request{Method: http.MethodPost, Path: "/", Streams: true})
			if err != nil {
				t.Fatal(err)
			}
			timing := answer.Timing
			if timing.Events != 3 || timing.FirstEvent < pause || timing.PerEvent() < pause/2 || timing.LastEvent > timing.Total-pause || string(answer.Body) != strings.Join(lines, "") {
				t.Errorf("timing %+v, between events %v, body %q", timing, timing.PerEvent(), answer.Body)
			}
		})
	}
}
