package warmup_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/calm"
)

// twoModels is a plan in which b has to be loaded by a call first.
func twoModels(f *fake, slow func(path string) time.Duration) []warmup.StepConfig {
	f.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/load/") {
			return false
		}
		select {
		case <-time.After(slow(r.URL.Path)):
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusOK)

		return true
	}
	load := func(name string) warmup.StepConfig {
		return warmup.StepConfig{Name: "load " + name, Call: &warmup.CallConfig{Method: http.MethodPost, Path: "/load/" + name}, Timeout: units.Duration(time.Minute)}
	}

	return []warmup.StepConfig{
		load("a"), load("b"),
		infers("warm a", warmup.InferConfig{Model: "a"}, "load a"), infers("warm b", warmup.InferConfig{Model: "b"}, "load b"),
	}
}

// TestC29ModelWaitsForItsOwnStepsOnly has a call that hangs, and that only one of the models needs.
func TestC29ModelWaitsForItsOwnStepsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"a": {infer: steadily(10 * ms)}, "b": {infer: steadily(10 * ms)}})
		steps := twoModels(f, func(path string) time.Duration {
			if path == "/load/b" {
				return hang
			}

			return 0
		})
		runner, seen, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: steps}})
		began := time.Now()
		report, err := runner.Run(anHour(t))
		if err == nil || model(t, report, "b").Outcome != warmup.Failed || model(t, report, "a").Outcome != warmup.Warm {
			t.Errorf("got %+v, %v", report.Models, err)
		}
		if ended := seen.of(warmup.ModelEnded); len(ended) != 2 || ended[0].Model.Name != "a" || ended[0].At.Sub(began) > 5*time.Second || time.Since(began) < 4*time.Minute {
			t.Errorf("models ended %+v after %v", ended, time.Since(began))
		}
	})
}

func TestRunModelRunsOnlyWhatItNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"a": {infer: steadily(10 * ms)}, "b": {infer: steadily(10 * ms)}})
		runner, seen, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: twoModels(f, func(string) time.Duration { return 0 })}, Workers: 1})
		before, err := runner.Run(anHour(t))
		if err != nil {
			t.Fatal(err)
		}
		events, a := len(seen.all), f.models["a"].n
		f.models["b"].infer = steadily(30 * ms)
		got, err := runner.RunModel(anHour(t), "b")
		if err != nil || got.Outcome != warmup.Warm || got.Name != "b" {
			t.Errorf("got %+v, %v", got, err)
		}
		if f.models["a"].n != a || f.count("POST /load/a") != 1 || f.count("POST /load/b") != 2 || len(seen.all) != events {
			t.Errorf("it did more than b needs: %v, %d events", f.paths, len(seen.all)-events)
		}
		report := runner.Report()
		if len(report.Models) != 2 || len(report.Shapes) != len(before.Shapes) || report.Requests != before.Requests*3/2 || report.Running {
			t.Errorf("report %+v", report)
		}
		if s := shapeOf(t, report, "b", "batch=1"); s.Seen.Level < 30*ms {
			t.Errorf("the report still tells of the first run: %+v", s)
		}
		if _, err := runner.RunModel(anHour(t), "c"); err == nil || !strings.Contains(err.Error(), "no step sends it requests") {
			t.Errorf("a model of no step: %v", err)
		}
	})
}

// TestRunModelIsASingleFlight has five who want the same model, of whom one does not wait; another wants another model.
func TestRunModelIsASingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"a": {infer: steadily(100 * ms)}, "b": {infer: steadily(100 * ms)}})
		runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: twoModels(f, func(string) time.Duration { return time.Second })}})
		var group sync.WaitGroup
		began := time.Now()
		for _, name := range []string{"a", "a", "a", "a", "b"} {
			group.Go(func() {
				if got, err := runner.RunModel(anHour(t), name); err != nil || got.Name != name || got.Outcome != warmup.Warm {
					t.Errorf("model %s: %+v, %v", name, got, err)
				}
			})
		}
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := runner.RunModel(impatient, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who does not wait: %v", err)
		}
		if _, err := runner.Run(anHour(t)); !errors.Is(err, warmup.ErrRunning) {
			t.Errorf("the whole plan meanwhile: %v", err)
		}
		group.Wait()
		if f.count("POST /load/a") != 1 || f.count("POST /load/b") != 1 || time.Since(began) > 20*time.Second {
			t.Errorf("requests %v after %v", f.paths, time.Since(began))
		}
	})
}

// TestAnEngineThatSleptIsWarmedAgain has a vLLM that is put to sleep and woken by somebody else.
func TestAnEngineThatSleptIsWarmedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, nil)
		var mu sync.Mutex
		asleep, inferences := false, 0
		f.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			switch r.URL.Path {
			case "/health":
			case "/v1/models":
				_, _ = w.Write([]byte(`{"data":[{"id":"m","owned_by":"vllm","root":"m","max_model_len":256}]}`))
			case "/is_sleeping":
				if asleep {
					_, _ = w.Write([]byte(`{"is_sleeping":true}`))
				} else {
					_, _ = w.Write([]byte(`{"is_sleeping":false}`))
				}
			case "/v1/completions", "/v1/chat/completions":
				if asleep {
					t.Error("a synthetic request reached an engine that sleeps")
				}
				inferences++
				time.Sleep(10 * ms)
				_, _ = w.Write([]byte(`{"choices":[{"text":"a","message":{"content":"a"}}],"usage":{"completion_tokens":8}}`))
			default:
				return false
			}

			return true
		}
		set := func(to bool) {
			mu.Lock()
			defer mu.Unlock()
			asleep = to
		}
		steps := []warmup.StepConfig{waits("up"), infers("shapes", warmup.InferConfig{Grid: warmup.GridConfig{Stream: []bool{false}, Endpoint: []warmup.Endpoint{backend.EndpointCompletions}}}, "up")}
		dialect, err := backend.New("vllm", f.client, backend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		runner, seen, _ := newRunner(t, f, warmup.Settings{Dialect: dialect, Config: warmup.Config{Steps: steps}})
		if report, err := runner.Run(anHour(t)); err != nil || model(t, report, "m").Outcome != warmup.Warm {
			t.Fatalf("got %+v, %v", report.Models, err)
		}
		if err := runner.Check(t.Context()); err != nil {
			t.Errorf("while it is awake: %v", err)
		}
		set(true)
		if cold, ok := errors.AsType[*warmup.ColdError](runner.Check(t.Context())); !ok || cold.Model != "m" || cold.Unloaded {
			t.Fatalf("while it sleeps it is not cold: %+v", cold)
		}
		mu.Lock()
		before := inferences
		mu.Unlock()
		time.AfterFunc(time.Minute, func() { set(false) })
		began := time.Now()
		report, err := runner.Run(anHour(t))
		if err != nil || model(t, report, "m").Outcome != warmup.Warm || time.Since(began) < time.Minute || inferences == before {
			t.Errorf("after it woke: %+v, %v, %d inferences", report.Models, err, inferences-before)
		}
		if !slices.ContainsFunc(seen.of(warmup.Waiting), func(e warmup.Event) bool { return e.Error != nil && strings.Contains(e.Error.Error(), "sleep") }) {
			t.Error("nobody was told what is waited for")
		}
	})
}

// TestRunModelLeavesNothingForABackground has derived shapes beyond the required ones: nobody would come back to warm them.
func TestRunModelLeavesNothingForABackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: coldly(20 * ms)}})
		runner, _, _ := newRunner(t, f, warmup.Settings{Background: true})
		if _, err := runner.Run(anHour(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := runner.RunModel(anHour(t), "m"); err != nil {
			t.Fatal(err)
		}
		runner.Background(anHour(t))
		for _, s := range runner.Report().Shapes {
			if s.State != warmup.ShapeConverged {
				t.Errorf("%s is %v", s.Shape(), s.State)
			}
		}
	})
}

// TestBackgroundSaysNothingOfAModelThatWasWarmedSince has a background that is put off while one of two models is warmed by itself, whose outcome is another one.
func TestBackgroundSaysNothingOfAModelThatWasWarmedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"a": {infer: steadily(10 * ms)}, "b": {infer: steadily(10 * ms)}})
		began := time.Now()
		runner, seen, _ := newRunner(t, f, warmup.Settings{
			Background: true, Config: warmup.Config{Pressure: calm.DefaultConfig()},
			Occupied: func() string {
				if time.Since(began) < 5*time.Minute {
					return "users are served"
				}

				return ""
			},
		})
		if _, err := runner.Run(anHour(t)); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() { runner.Background(anHour(t)) })
		synctest.Wait()
		if _, err := runner.RunModel(anHour(t), "b"); err != nil {
			t.Fatal(err)
		}
		before := f.count("POST /v2/models/b/infer")
		group.Wait()
		if ended := seen.of(warmup.BackgroundEnded); len(ended) != 1 || ended[0].Model.Name != "a" {
			t.Errorf("ended %+v, expected model a alone", ended)
		}
		if f.count("POST /v2/models/b/infer") != before {
			t.Errorf("%d requests for what was warmed since", f.count("POST /v2/models/b/infer")-before)
		}
	})
}
