package warmup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// fake is an Open Inference Protocol server in memory, for use in a bubble of fake time.
type fake struct {
	listener *memnet.Listener
	client   *backend.Client

	mu sync.Mutex
	// models maps those it has to how they answer.
	models map[string]*fakeModel
	// intercept answers instead of the rest when it returns true.
	intercept func(w http.ResponseWriter, r *http.Request) bool
	// paths counts the requests.
	paths      map[string]int
	inFlight   int
	mostAtOnce int
	cancelled  int
}

type fakeModel struct {
	config string
	shape  string
	n      int
	// infer says how request number n (the first is 1) of that batch is answered.
	infer func(n, batch int) (latency time.Duration, status int, body string)
}

const hang = 1000 * time.Hour

// steadily answers within that time, always.
func steadily(latency time.Duration) func(int, int) (time.Duration, int, string) {
	return func(int, int) (time.Duration, int, string) { return latency, http.StatusOK, "" }
}

// coldly takes a second for the first request of each batch size.
func coldly(latency time.Duration) func(int, int) (time.Duration, int, string) {
	seen := map[int]bool{}

	return func(_, batch int) (time.Duration, int, string) {
		if !seen[batch] {
			seen[batch] = true

			return time.Second, http.StatusOK, ""
		}

		return latency, http.StatusOK, ""
	}
}

// newFake starts a server; a bubble must be left with nothing running, so it ends with the test.
func newFake(t *testing.T, models map[string]*fakeModel) *fake {
	t.Helper()
	f := &fake{listener: memnet.Listen(), models: models, paths: map[string]int{}}
	var err error
	f.client, err = backend.NewClient(backend.ClientSettings{Network: "tcp", Address: "backend:8000", DialContext: f.listener.DialContext})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: f}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(f.listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})

	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.paths[r.Method+" "+r.URL.Path]++
	intercept := f.intercept
	f.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/models/"), "/")
	f.mu.Lock()
	model := f.models[name]
	f.mu.Unlock()
	switch {
	case r.URL.Path == "/v2":
		_, _ = io.WriteString(w, `{"name":"fake","version":"1","extensions":["model_configuration"]}`)
	case r.URL.Path == "/v2/health/ready":
	case r.URL.Path == "/v2/repository/index":
		f.index(w)
	case model == nil, rest == "config" && model.config == "":
		http.NotFound(w, r)
	case rest == "ready":
	case rest == "config":
		_, _ = io.WriteString(w, model.config)
	case rest == "infer":
		f.infer(w, r, model, body)
	default:
		shape := model.shape
		if shape == "" {
			shape = "[-1,2]"
		}
		_, _ = fmt.Fprintf(w, `{"name":%q,"inputs":[{"name":"x","datatype":"FP32","shape":%s}],"outputs":[]}`, name, shape)
	}
}

func (f *fake) index(w http.ResponseWriter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]string, 0, len(f.models))
	for name := range f.models {
		list = append(list, fmt.Sprintf(`{"name":%q,"version":"1","state":"READY"}`, name))
	}
	_, _ = io.WriteString(w, "["+strings.Join(list, ",")+"]")
}

func (f *fake) infer(w http.ResponseWriter, r *http.Request, model *fakeModel, body []byte) {
	var request struct {
		Inputs []struct {
			Shape []int `json:"shape"`
		} `json:"inputs"`
	}
	_ = json.Unmarshal(body, &request)
	f.mu.Lock()
	model.n++
	latency, status, answer := model.infer(model.n, request.Inputs[0].Shape[0])
	f.inFlight++
	f.mostAtOnce = max(f.mostAtOnce, f.inFlight)
	f.mu.Unlock()
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		f.mu.Lock()
		f.cancelled++
		f.mu.Unlock()
	}
	f.mu.Lock()
	f.inFlight--
	f.mu.Unlock()
	if answer == "" {
		answer = `{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[0.5]}]}`
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer)
}

func (f *fake) count(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.paths[path]
}

// events collects the progress of a run.
type events struct {
	mu  sync.Mutex
	all []warmup.Event
}

func (e *events) add(event warmup.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) of(kind warmup.EventKind) []warmup.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []warmup.Event
	for _, event := range e.all {
		if event.Kind == kind {
			found = append(found, event)
		}
	}

	return found
}

func newRunner(t *testing.T, f *fake, settings warmup.Settings) (*warmup.Runner, *events, *bytes.Buffer) {
	t.Helper()
	seen := &events{}
	var log bytes.Buffer
	settings.Client, settings.Progress = f.client, seen.add
	settings.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	runner, err := warmup.NewRunner(settings)
	if err != nil {
		t.Fatal(err)
	}

	return runner, seen, &log
}

func model(t *testing.T, report warmup.Report, name string) warmup.ModelReport {
	t.Helper()
	for _, m := range report.Models {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no model %s in %+v", name, report.Models)

	return warmup.ModelReport{}
}

func shapeOf(t *testing.T, report warmup.Report, name, shape string) warmup.ShapeReport {
	t.Helper()
	for _, s := range report.Shapes {
		if s.Model == name && s.Shape() == shape {
			return s
		}
	}
	t.Fatalf("no shape %s of %s in %+v", shape, name, report.Shapes)

	return warmup.ShapeReport{}
}

// anHour is a context that ends a test that would run for ever in fake time.
func anHour(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)

	return ctx
}
