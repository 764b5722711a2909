package warmup_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// TestGPUTimeCountsRequestsSideBySideOnce has two models warmed at once: the time of both is counted once, the time of checks in all but not for the run.
func TestGPUTimeCountsRequestsSideBySideOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"a": {shape: "[1]", infer: steadily(100 * ms)}, "b": {shape: "[1]", infer: steadily(100 * ms)}})
		runner, _, log := newRunner(t, f, warmup.Settings{Models: []string{"a", "b"}})
		report, err := runner.Run(anHour(t))
		if err != nil {
			t.Fatal(err)
		}
		if want := 1900 * ms; report.Requests != 38 || report.GPUTime < want || report.GPUTime > want+50*ms || report.GPUTimeInAll != report.GPUTime {
			t.Errorf("%d requests, %v, %v in all, expected %v", report.Requests, report.GPUTime, report.GPUTimeInAll, want)
		}
		if !strings.Contains(log.String(), `"gpu_time":19`) {
			t.Errorf("the log does not tell:\n%s", log)
		}
		if err := runner.Synthetic(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := runner.Report(); after.GPUTime != report.GPUTime || after.GPUTimeInAll < report.GPUTimeInAll+200*ms {
			t.Errorf("after two checks %v, %v in all", after.GPUTime, after.GPUTimeInAll)
		}
		again, err := runner.Run(anHour(t))
		if err != nil || again.GPUTime > 2*time.Second || again.GPUTimeInAll < 4*time.Second {
			t.Errorf("the second run %v, %v in all, %v", again.GPUTime, again.GPUTimeInAll, err)
		}
	})
}

func TestGPUTimeEndsARunHonestly(t *testing.T) {
	tests := []struct {
		name string
		most time.Duration
		left []string
	}{
		{"before it is warm", time.Second, []string{"batch=1", "batch=8", "batch=2", "batch=4"}},
		{"enough: the control", time.Hour, nil},
		{"no cap: the control", 0, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(100 * ms)}})
				runner, _, _ := newRunner(t, f, warmup.Settings{Workers: 1, Config: warmup.Config{GPUTime: units.Duration(test.most)}})
				report, err := runner.Run(anHour(t))
				got := model(t, report, "m")
				if test.left == nil {
					if err != nil || got.Outcome != warmup.Warm {
						t.Errorf("got %+v, %v", got, err)
					}

					return
				}
				if err != nil || got.Outcome != warmup.Degraded || !slices.Equal(got.Reasons, []warmup.Reason{warmup.ReasonGPUTimeSpent}) {
					t.Errorf("got %+v, %v", got, err)
				}
				if want := "warmup.gpu_time, 1s, is spent; left unwarmed: " + strings.Join(test.left, ", "); !strings.HasSuffix(got.Text, want) {
					t.Errorf("%q does not end with %q", got.Text, want)
				}
				if report.GPUTime < test.most || report.GPUTime > test.most+110*ms {
					t.Errorf("%v are spent, expected at most one request more than %v", report.GPUTime, test.most)
				}
				for _, s := range report.Shapes {
					if s.State != warmup.ShapeLeft {
						t.Errorf("%s is %v", s.Shape(), s.State)
					}
				}
			})
		})
	}
}

// TestGPUTimeEndsTheBackground has enough of it for what is required.
func TestGPUTimeEndsTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(100 * ms)}})
		runner, seen, _ := newRunner(t, f, warmup.Settings{Workers: 1, Background: true, Config: warmup.Config{GPUTime: units.Duration(4500 * ms)}})
		if report, err := runner.Run(anHour(t)); err != nil || model(t, report, "m").Outcome != warmup.Warm {
			t.Fatalf("got %+v, %v", report.Models, err)
		}
		runner.Background(anHour(t))
		ended := seen.of(warmup.BackgroundEnded)
		if len(ended) != 1 || ended[0].Model.Outcome != warmup.Warm || !slices.Equal(ended[0].Model.Reasons, []warmup.Reason{warmup.ReasonGPUTimeSpent}) ||
			!strings.HasSuffix(ended[0].Model.Text, "left unwarmed: batch=2, batch=4") {
			t.Errorf("got %+v", ended)
		}
	})
}

// TestGPUTimeIsForAllTries runs the plan again and again, as a pod does that stays unready. The controls are runs that are no tries of one warm-up: each may spend anew.
func TestGPUTimeIsForAllTries(t *testing.T) {
	const tries = 4
	stay := warmup.Config{NotConverged: warmup.StayUnready}
	serve := warmup.Config{NotConverged: warmup.StayUnready, OnFailure: warmup.Serve}
	fails := func(n, _ int) (time.Duration, int, string) {
		if n%7 == 0 {
			return 100 * ms, http.StatusInternalServerError, "broken"
		}

		return 100 * ms, http.StatusOK, ""
	}
	for _, test := range []struct {
		name     string
		config   warmup.Config
		infer    func(n, batch int) (time.Duration, int, string)
		alone    bool          // it is a model's own warm-up
		given    time.Duration // each run is given up after that
		optional bool          // the model is
		spent    time.Duration // in all
	}{
		{name: "not converged, and that keeps the pod unready", config: stay, infer: steadily(100 * ms), spent: time.Second},
		{name: "it fails", config: stay, infer: fails, spent: time.Second},
		{name: "a model by itself", config: stay, infer: steadily(100 * ms), alone: true, spent: time.Second},
		{name: "a model by itself fails, in a pod that serves all the same", config: serve, infer: fails, alone: true, spent: time.Second},
		{name: "control: the pod serves so", config: warmup.Config{NotConverged: warmup.Serve}, infer: steadily(100 * ms), spent: tries * time.Second},
		{name: "control: it fails, and the pod serves all the same", config: serve, infer: fails, spent: tries * 700 * ms},
		{name: "control: the model is not required", config: stay, infer: steadily(100 * ms), optional: true, spent: tries * time.Second},
		{name: "control: somebody asks for it anew", config: stay, infer: steadily(100 * ms), given: 800 * ms, spent: tries * 800 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]*fakeModel{"m": {infer: test.infer}})
				config := test.config
				config.GPUTime = units.Duration(time.Second)
				config.Steps = []warmup.StepConfig{waits("up"), retries(infers("shapes", warmup.InferConfig{}, "up"), 0)}
				runner, _, _ := newRunner(t, f, warmup.Settings{Workers: 1, Config: config, Required: func(string) bool { return !test.optional }})
				for range tries {
					ctx, end := context.WithCancel(anHour(t))
					if test.given > 0 {
						time.AfterFunc(test.given, end)
					}
					if test.alone {
						_, _ = runner.RunModel(ctx, "m")
					} else {
						_, _ = runner.Run(ctx)
					}
					end()
				}
				if spent := time.Duration(f.models["m"].n) * 100 * ms; spent != test.spent {
					t.Errorf("spent %v in %d runs, expected %v", spent, tries, test.spent)
				}
			})
		})
	}
}

func TestGPUTimeEndsAReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(300 * ms)}})
		path := filepath.Join(t.TempDir(), "requests.jsonl")
		line := `{"path":"/v2/models/m/infer","body":{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]}}` + "\n"
		if err := os.WriteFile(path, []byte(strings.Repeat(line, 10)), 0o600); err != nil {
			t.Fatal(err)
		}
		runner, _, _ := newRunner(t, f, warmup.Settings{Models: []string{"m"}, Config: warmup.Config{
			GPUTime: units.Duration(time.Second), Steps: []warmup.StepConfig{waits("up"), {Name: "recorded", Needs: []string{"up"}, Replay: &warmup.ReplayConfig{Files: []string{path}}}},
		}})
		report, err := runner.Run(anHour(t))
		got := model(t, report, "m")
		if err != nil || got.Outcome != warmup.Degraded || !strings.Contains(got.Text, "sent 4 requests, and none of "+path+" after them") || f.models["m"].n != 4 {
			t.Errorf("got %+v, %v after %d requests", got, err, f.models["m"].n)
		}
	})
}
