package warmup_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// loadable has no model until somebody calls for it, is busy twice, and writes down what it is sent.
func loadable(seen *[]string) func(http.ResponseWriter, *http.Request) bool {
	loaded, busy := false, 0

	return func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/v2/repository/models/m/load":
			loaded = true
			*seen = append(*seen, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("X-A"))
		case r.URL.Path == "/predict":
			if busy++; busy <= 2 {
				w.WriteHeader(http.StatusTooManyRequests)

				return true
			}
			*seen = append(*seen, r.Method+" "+r.Header.Get("Content-Type"))
			if strings.HasSuffix(r.URL.RawQuery, "bad") {
				_, _ = io.WriteString(w, `{"error":"out of memory"}`)
			}
		case !loaded && r.URL.Path == "/v2/repository/index":
			_, _ = io.WriteString(w, "[]")
		default:
			return false
		}

		return true
	}
}

func TestCallAndReplay(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		return path
	}
	good := file("good", "{\"path\":\"/predict\",\"body\":{\"x\":1}}\n\n{\"method\":\"PUT\",\"path\":\"/predict\",\"headers\":{\"content-type\":\"text/plain\"},\"body_base64\":\"aGk=\"}\n")
	load := warmup.StepConfig{Name: "load", Call: &warmup.CallConfig{Method: "POST", Path: "/v2/repository/models/m/load?a=1", Headers: map[string]string{"x-a": "b"}}}
	tests := []struct {
		name, file, says string
	}{
		{"good", good, ""},
		{"an error in a 200", file("bad", `{"path":"/predict?bad"}`), "line 1: status 200: the answer holds an error"},
		{"no JSON", file("text", "POST /predict"), "line 1: expected {"},
		{"an unknown key", file("unknown", `{"path":"/predict","url":"x"}`), "url"},
		{"no path", file("pathless", `{"method":"POST"}`), "expected one that begins with /"},
		{"two bodies", file("two", `{"path":"/predict","body":1,"body_base64":"aGk="}`), "expected one of them"},
		{"no requests", file("empty", "\n"), "no request"},
		{"no file", filepath.Join(folder, "none"), "no such file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(ms)}})
				var seen []string
				f.intercept = loadable(&seen)
				replay := retries(warmup.StepConfig{Name: "recorded", Needs: []string{"up"}, Replay: &warmup.ReplayConfig{Files: []string{test.file}}}, 0)
				up := waits("up")
				up.Needs = []string{"load"}
				runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: []warmup.StepConfig{replay, up, load}}})
				report, err := runner.Run(anHour(t))
				if test.says != "" {
					if err == nil || !strings.Contains(err.Error(), test.says) || model(t, report, "m").Outcome != warmup.Failed {
						t.Errorf("got %v, expected one that says %q; %+v", err, test.says, report.Models)
					}

					return
				}
				if err != nil || model(t, report, "m").Outcome != warmup.Warm || report.Requests != 2 || report.Busy != 2 {
					t.Errorf("got %v, %+v", err, report)
				}
				if got := strings.Join(seen, "; "); got != "POST /v2/repository/models/m/load?a=1 b; POST application/json; PUT text/plain" {
					t.Errorf("the server saw %s", got)
				}
			})
		})
	}
}

func TestCallAndReplayAreChecked(t *testing.T) {
	t.Parallel()
	for _, step := range []warmup.StepConfig{
		{Name: "s", Call: &warmup.CallConfig{Method: "post", Path: "/"}},
		{Name: "s", Call: &warmup.CallConfig{Method: "POST", Path: "x"}},
		{Name: "s", Replay: &warmup.ReplayConfig{}},
		{Name: "s", Replay: &warmup.ReplayConfig{Files: []string{"a"}}, Wait: &warmup.WaitConfig{}},
		{Name: "s"},
	} {
		if _, err := warmup.NewPlan([]warmup.StepConfig{step}); err == nil {
			t.Errorf("%+v is taken", step)
		}
	}
}
