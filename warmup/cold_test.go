package warmup_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// answers lets a fake answer paths by the text that is set, and everything else as it does.
type answers struct {
	mu    sync.Mutex
	paths map[string]answer
}

type answer struct {
	status int
	body   string
}

func (a *answers) set(path string, status int, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paths == nil {
		a.paths = map[string]answer{}
	}
	a.paths[path] = answer{status, body}
}

func (a *answers) intercept(w http.ResponseWriter, r *http.Request) bool {
	a.mu.Lock()
	said, ok := a.paths[r.URL.Path]
	a.mu.Unlock()
	if ok {
		w.WriteHeader(said.status)
		_, _ = io.WriteString(w, said.body)
	}

	return ok
}

const versioned = `{"name":"a","versions":["VERSION"],"platform":"onnx","inputs":[{"name":"x","datatype":"FP32","shape":[1,2]}],"outputs":[]}`

// coldAfter warms model a, lets something happen to the server, and returns what a check finds then.
func coldAfter(t *testing.T, happen func(*answers)) error {
	t.Helper()
	var found error
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"a": {infer: steadily(ms)}, "b": {infer: steadily(ms)}})
		said := &answers{}
		said.set("/v2/models/a", 200, strings.Replace(versioned, "VERSION", "1", 1))
		f.intercept = said.intercept
		runner, _, _ := newRunner(t, f, warmup.Settings{Models: []string{"a"}})
		if _, err := runner.Run(anHour(t)); err != nil {
			t.Fatal(err)
		}
		if err := runner.Check(t.Context()); err != nil {
			t.Fatalf("nothing has happened: %v", err)
		}
		happen(said)
		found = runner.Check(t.Context())
		if cold := (*warmup.ColdError)(nil); errors.As(found, &cold) {
			// What makes it warm again is a run; then it is.
			said.set("/v2/models/a/ready", 200, "")
			if _, err := runner.Run(anHour(t)); err != nil {
				t.Fatal(err)
			}
			if err := runner.Check(t.Context()); err != nil {
				t.Errorf("after another run: %v", err)
			}
		}
	})

	return found
}

// TestC33UnloadedModelIsCold has the server stay ready while the model is gone; C35 is the control: what happens to a model that is not required.
func TestC33UnloadedModelIsCold(t *testing.T) {
	for name, said := range map[string]answer{
		"400": {400, `{"error":"Request for unknown model"}`}, "404": {404, ""}, "ready false in a 200": {200, `{"ready":false}`},
	} {
		err := coldAfter(t, func(a *answers) { a.set("/v2/models/a/ready", said.status, said.body) })
		if cold := (*warmup.ColdError)(nil); !errors.As(err, &cold) || cold.Model != "a" {
			t.Errorf("%s: got %v, expected that a is cold", name, err)
		}
	}
	err := coldAfter(t, func(a *answers) { a.set("/v2/models/a/ready", 503, "busy") })
	if cold := (*warmup.ColdError)(nil); err == nil || errors.As(err, &cold) {
		t.Errorf("503: got %v, expected a check that failed and no more: a busy server says that too", err)
	}
}

func TestC35LoadingAnotherModelChangesNothing(t *testing.T) {
	err := coldAfter(t, func(a *answers) {
		a.set("/v2/health/ready", 503, "")
		a.set("/v2/models/b/ready", 400, "")
		a.set("/v2/repository/index", 200, `[{"name":"a","state":"READY"},{"name":"b","state":"LOADING"}]`)
	})
	if err != nil {
		t.Errorf("got %v, expected that model a is as it was", err)
	}
}

func TestC34ReloadedModelIsCold(t *testing.T) {
	err := coldAfter(t, func(a *answers) { a.set("/v2/models/a", 200, strings.Replace(versioned, "VERSION", "2", 1)) })
	if cold := (*warmup.ColdError)(nil); !errors.As(err, &cold) || !strings.Contains(cold.Reason, "versions 1") || !strings.Contains(cold.Reason, "versions 2") {
		t.Errorf("got %v, expected both versions", err)
	}
	if err := coldAfter(t, func(a *answers) { a.set("/v2/models/a", 500, "no metadata today") }); err != nil {
		t.Errorf("metadata that cannot be read is no evidence: %v", err)
	}
}

// ollama is a server that unloads its model some time after the last inference, in fake time.
type ollama struct {
	mu     sync.Mutex
	last   time.Time
	loads  int
	stays  time.Duration
	listed int
}

func (o *ollama) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch r.URL.Path {
	case "/api/version":
		_, _ = io.WriteString(w, `{"version":"0.12.3"}`)
	case "/api/tags":
		o.listed++
		_, _ = io.WriteString(w, `{"models":[{"name":"m:latest","digest":"d"}]}`)
	case "/api/ps":
		list := ""
		if o.loaded() {
			list = `{"name":"m:latest"}`
		}
		_, _ = io.WriteString(w, `{"models":[`+list+`]}`)
	case "/api/generate":
		if !o.loaded() {
			o.loads++
			time.Sleep(50 * time.Second)
		}
		time.Sleep(20 * ms)
		o.last = time.Now()
		if strings.Contains(string(body), `"stream":true`) {
			_, _ = io.WriteString(w, "{\"response\":\"a\",\"done\":false}\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * ms)
		}
		_, _ = io.WriteString(w, "{\"response\":\"b\",\"done\":true}\n")
	default:
		http.NotFound(w, r)
	}
}

func (o *ollama) loaded() bool { return !o.last.IsZero() && time.Since(o.last) < o.stays }

// TestC32IdleUnloadIsNoticedAndNotPrevented has a server that unloads after 5 idle seconds: our checks notice it, never load, and never keep loaded.
func TestC32IdleUnloadIsNoticedAndNotPrevented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &ollama{stays: 5 * time.Second}
		client := serveInMemory(t, server)
		runner, err := warmup.NewRunner(warmup.Settings{Client: client, Models: []string{"m"}, Config: warmup.Config{Steps: []warmup.StepConfig{
			waits("up"), infers("shapes", warmup.InferConfig{Grid: warmup.GridConfig{InputTokens: []int{8}, Temperature: []float64{0}, Stream: []bool{true}, Endpoint: []warmup.Endpoint{backend.EndpointNative}}}, "up"),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		report, err := runner.Run(anHour(t))
		if err != nil {
			t.Fatal(err)
		}
		s := report.Shapes[0]
		if report.ServerType != "ollama" || s.State != warmup.ShapeConverged || s.Seen.First < 50*time.Second || s.Seen.Level != 20*ms || s.Gaps == nil || s.Gaps.Level != 10*ms {
			t.Errorf("report of a %s: %+v, gaps %+v", report.ServerType, s, s.Gaps)
		}
		for range 4 {
			time.Sleep(time.Second)
			if err := runner.Check(t.Context()); err != nil {
				t.Errorf("while it is loaded: %v", err)
			}
		}
		time.Sleep(2 * time.Second)
		for range 20 {
			time.Sleep(time.Second)
			if cold := (*warmup.ColdError)(nil); !errors.As(runner.Check(t.Context()), &cold) {
				t.Error("the unloading was not noticed")
			}
		}
		if server.loads != 1 {
			t.Errorf("%d loads, expected the one of the warm-up: checks never load", server.loads)
		}
		if _, err := runner.Run(anHour(t)); err != nil || server.loads != 2 {
			t.Errorf("re-warmed: %v, %d loads", err, server.loads)
		}
	})
}

func serveInMemory(t *testing.T, handler http.Handler) *backend.Client {
	t.Helper()
	listener := memnet.Listen()
	client, err := backend.NewClient(backend.ClientSettings{Network: "tcp", Address: "backend:8000", DialContext: listener.DialContext})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})

	return client
}
