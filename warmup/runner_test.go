package warmup_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

const ms = time.Millisecond

func infers(name string, config warmup.InferConfig, needs ...string) warmup.StepConfig {
	return warmup.StepConfig{Name: name, Needs: needs, Infer: &config}
}

func retries(step warmup.StepConfig, n int) warmup.StepConfig {
	step.Retries = &n

	return step
}

func TestRunWarmsWhatTheBackendHasLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{
			"a": {infer: coldly(20 * ms)},
			"b": {infer: coldly(40 * ms), config: `{"max_batch_size":12}`},
			"c": {infer: coldly(10 * ms), shape: "[1,2]"},
		})
		runner, seen, log := newRunner(t, f, warmup.Settings{Workers: 4})
		report, err := runner.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, batches := range map[string][]int{"a": {1, 8, 2, 4}, "b": {1, 12, 2, 4, 8}, "c": {1}} {
			if got := model(t, report, name); got.Outcome != warmup.Warm || got.Text != "" {
				t.Errorf("model %s: %+v", name, got)
			}
			var got []int
			for _, s := range report.Shapes {
				if s.Model != name || s.Concurrency != 1 {
					continue
				}
				got = append(got, s.Of.Batch)
				if s.State != warmup.ShapeConverged || s.Seen.N != 19 || s.Rounds != 1 || s.Seen.First < time.Second || s.Seen.ColdEvents != 1 {
					t.Errorf("shape %v of %s: %+v", s.Shape(), name, s)
				}
			}
			if !slices.Equal(got, batches) {
				t.Errorf("model %s: batches %v, expected %v, extremes first", name, got, batches)
			}
		}
		if s := shapeOf(t, report, "a", "batch=8 concurrency=4"); s.State != warmup.ShapeConverged || s.Seen.N != 84 {
			t.Errorf("at the number of workers: %+v", s)
		}
		if f.mostAtOnce < 4 {
			t.Errorf("at most %d requests at once, expected 4 from one model", f.mostAtOnce)
		}
		if report.ServerType != "oip" || report.Running || report.Remaining != 0 || report.Run != 1 {
			t.Errorf("report %+v", report)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 4 || strings.Count(log.String(), "warm-up step ended") != 2 {
			t.Errorf("%d lines, expected one for each step, the server type and the end:\n%s", lines, log)
		}
		if !strings.Contains(log.String(), "n=19") {
			t.Errorf("the log does not tell what was seen of the shapes:\n%s", log)
		}
		if got := runner.Level(); got < 40*ms || got > 41*ms {
			t.Errorf("level %v, expected that of the slowest model's cheapest shape", got)
		}
		if up, found := seen.of(warmup.BackendUp), seen.of(warmup.ModelsFound); len(up) != 1 || len(found) != 1 || len(found[0].Models) != 3 {
			t.Errorf("events up %v, found %v", up, found)
		}
		if ended := seen.of(warmup.ModelEnded); len(ended) != 3 || ended[0].Model.Outcome != warmup.Warm {
			t.Errorf("models ended: %+v", ended)
		}
		if started, ended := seen.of(warmup.StepStarted), seen.of(warmup.StepEnded); len(started) != 2 || len(ended) != 2 || started[0].Step != "backend" || ended[1].Step != "shapes" {
			t.Errorf("steps started %v, ended %v", started, ended)
		}
		if text, err := json.Marshal(report); err != nil || !strings.Contains(string(text), `"state":"converged"`) {
			t.Errorf("report as JSON: %v\n%s", err, text)
		}
	})
}

func TestRunWaitsForALateBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(5 * ms)}})
		begin := time.Now()
		f.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
			if time.Since(begin) > 20*time.Second {
				return false
			}
			http.Error(w, "loading", http.StatusServiceUnavailable)

			return true
		}
		runner, seen, _ := newRunner(t, f, warmup.Settings{Models: []string{"m"}})
		if _, err := runner.Run(anHour(t)); err != nil {
			t.Fatal(err)
		}
		if asked := f.count("GET /v2"); asked < 60 || asked > 200 {
			t.Errorf("asked %d times in 20 s, expected pauses of up to 250 ms", asked)
		}
		if up := seen.of(warmup.BackendUp); len(up) != 1 || up[0].At.Sub(begin) > 10*ms {
			t.Errorf("backend up %v, expected at its first 503", up)
		}
	})
}

// TestC28RequiredShapeFails has a batch that the server cannot do.
func TestC28RequiredShapeFails(t *testing.T) {
	oom := func(_, batch int) (time.Duration, int, string) {
		if batch == 128 {
			return ms, http.StatusInternalServerError, `{"error":"CUDA out of memory"}`
		}

		return 10 * ms, http.StatusOK, ""
	}
	inner := func(_, batch int) (time.Duration, int, string) {
		if batch == 128 {
			return ms, http.StatusOK, `{"error":"CUDA out of memory"}`
		}

		return 10 * ms, http.StatusOK, ""
	}
	tests := []struct {
		name     string
		infer    func(n, batch int) (time.Duration, int, string)
		optional bool
		status   string
	}{
		{"required", oom, false, "status 500"},
		{"required, error in a 200", inner, false, "status 200"},
		{"optional", oom, true, "status 500"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]*fakeModel{"m": {infer: test.infer}})
				large := infers("large", warmup.InferConfig{Grid: warmup.GridConfig{Batch: []int{128}}}, "up")
				large.Optional = test.optional
				runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: []warmup.StepConfig{
					waits("up"), infers("small", warmup.InferConfig{Grid: warmup.GridConfig{Batch: []int{1}}}, "up"), large,
				}}})
				report, err := runner.Run(anHour(t))
				got := model(t, report, "m")
				for _, want := range []string{"m", "batch=128", test.status, "CUDA out of memory"} {
					if !strings.Contains(got.Text, want) {
						t.Errorf("%q does not say %q", got.Text, want)
					}
				}
				if s := shapeOf(t, report, "m", "batch=1"); s.State != warmup.ShapeConverged {
					t.Errorf("the step that needs it not has shape %+v", s)
				}
				if n := f.models["m"].n; n != 19+4 {
					t.Errorf("%d requests, expected 19 and four tries", n)
				}
				if test.optional {
					if err != nil || got.Outcome != warmup.Degraded || !slices.Equal(got.Reasons, []warmup.Reason{warmup.ReasonOptionalFailed}) {
						t.Errorf("optional: %+v, %v", got, err)
					}

					return
				}
				if err == nil || got.Outcome != warmup.Failed || !slices.Equal(got.Reasons, []warmup.Reason{warmup.ReasonWarmFailed}) {
					t.Errorf("required: %+v, %v", got, err)
				}
			})
		})
	}
}

func TestC29InferenceThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := func(_, batch int) (time.Duration, int, string) {
			if batch == 2 {
				return hang, http.StatusOK, ""
			}

			return 10 * ms, http.StatusOK, ""
		}
		f := newFake(t, map[string]*fakeModel{"bad": {infer: stuck}, "good": {infer: steadily(10 * ms)}})
		shapes := infers("shapes", warmup.InferConfig{Grid: warmup.GridConfig{Batch: []int{1, 2, 4}}})
		shapes.Timeout = units.Duration(20 * time.Second)
		runner, seen, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: []warmup.StepConfig{retries(shapes, 2)}}})
		begin := time.Now()
		report, err := runner.Run(anHour(t))
		if err == nil || !strings.Contains(err.Error(), "model bad: infer bad batch=2: timed out after 20s") {
			t.Errorf("got %v", err)
		}
		if got := model(t, report, "good"); got.Outcome != warmup.Warm {
			t.Errorf("the other model: %+v", got)
		}
		if ended := seen.of(warmup.ModelEnded); ended[0].Model.Name != "good" || ended[0].At.Sub(begin) > 2*time.Second {
			t.Errorf("the other model was warm after %v", ended[0].At.Sub(begin))
		}
		if took := time.Since(begin); took < time.Minute || took > 70*time.Second {
			t.Errorf("three tries of 20 s took %v", took)
		}
		synctest.Wait()
		if f.cancelled != 3 {
			t.Errorf("%d connections were closed at the backend, expected one each try", f.cancelled)
		}
	})
}

// TestC29LaterInferenceThatNeverAnswers hangs on a shape that was answered before: that has a limit of its own.
func TestC29LaterInferenceThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {shape: "[1]", infer: func(n, _ int) (time.Duration, int, string) {
			if n == 6 {
				return hang, http.StatusOK, ""
			}

			return 10 * ms, http.StatusOK, ""
		}}})
		runner, _, _ := newRunner(t, f, warmup.Settings{})
		begin := time.Now()
		report, err := runner.Run(anHour(t))
		if err != nil || model(t, report, "m").Outcome != warmup.Warm {
			t.Errorf("got %+v, %v", report.Models, err)
		}
		if took := time.Since(begin); took < 30*time.Second || took > 33*time.Second {
			t.Errorf("took %v, expected one limit of 30 s", took)
		}
	})
}

// TestC36ReadyOnlyAfterTheFirstInference has a server whose status is 503 until it has served a request.
func TestC36ReadyOnlyAfterTheFirstInference(t *testing.T) {
	for _, test := range []struct {
		order warmup.Order
		ok    bool
	}{{warmup.OrderInfer, true}, {warmup.OrderStatus, false}} {
		t.Run(test.order.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(10 * ms)}})
				f.intercept = func(w http.ResponseWriter, r *http.Request) bool {
					f.mu.Lock()
					defer f.mu.Unlock()
					cold := strings.HasSuffix(r.URL.Path, "/ready") && f.models["m"].n == 0
					if cold {
						http.Error(w, "not ready", http.StatusServiceUnavailable)
					}

					return cold
				}
				up := waits("up")
				up.Wait.Order = test.order
				runner, _, _ := newRunner(t, f, warmup.Settings{Models: []string{"m"}, Config: warmup.Config{
					Timeout: units.Duration(time.Minute), Steps: []warmup.StepConfig{up, infers("shapes", warmup.InferConfig{}, "up")},
				}})
				report, err := runner.Run(anHour(t))
				if test.ok && (err != nil || model(t, report, "m").Outcome != warmup.Warm) {
					t.Errorf("got %+v, %v", report.Models, err)
				}
				if !test.ok && (err == nil || !strings.Contains(err.Error(), "status 503")) {
					t.Errorf("waiting for the status: got %v, expected that it never comes", err)
				}
			})
		})
	}
}

// TestC39LoadTakesLongerThanTheLimit has a model that loads for two and a half times the limit.
func TestC39LoadTakesLongerThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(10 * ms)}})
		begin := time.Now()
		f.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			loading := r.URL.Path == "/v2/models/m/ready" && time.Since(begin) < 50*time.Second
			if loading {
				http.Error(w, "loading", http.StatusServiceUnavailable)
			}

			return loading
		}
		runner, _, _ := newRunner(t, f, warmup.Settings{Models: []string{"m"}, Config: warmup.Config{Timeout: units.Duration(20 * time.Second)}})
		failures := 0
		for {
			report, err := runner.Run(anHour(t))
			if err == nil {
				if model(t, report, "m").Outcome != warmup.Warm {
					t.Errorf("got %+v", report.Models)
				}

				break
			}
			failures++
			if !strings.Contains(err.Error(), "warm-up timed out after 20s") || !strings.Contains(err.Error(), "loading") {
				t.Errorf("run %d: %v does not say which limit it was, and what was answered", failures, err)
			}
			if got := model(t, report, "m"); got.Outcome != warmup.Failed || report.Run != failures {
				t.Errorf("run %d: %+v", report.Run, got)
			}
		}
		if failures != 2 {
			t.Errorf("%d runs failed, expected 2", failures)
		}
	})
}

func TestBusyIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {shape: "[1]", infer: func(n, _ int) (time.Duration, int, string) {
			switch n % 3 {
			case 1:
				return 0, http.StatusTooManyRequests, "queue full"
			case 2:
				return 0, http.StatusServiceUnavailable, "busy"
			default:
				return 10 * ms, http.StatusOK, ""
			}
		}}})
		runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{
			Steps: []warmup.StepConfig{retries(infers("shapes", warmup.InferConfig{}), 0)},
		}})
		report, err := runner.Run(anHour(t))
		if err != nil || model(t, report, "m").Outcome != warmup.Warm {
			t.Fatalf("got %+v, %v", report.Models, err)
		}
		if s := shapeOf(t, report, "m", "batch=1"); report.Busy != 2*s.Seen.N || s.Seen.ColdEvents != 0 {
			t.Errorf("%d refusals, shape %+v", report.Busy, s)
		}
	})
}

func TestRefusedCredentialsAreNoReasonToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(10 * ms)}})
		f.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v2/models/m/ready" {
				return false
			}
			http.Error(w, "who are you", http.StatusUnauthorized)

			return true
		}
		runner, _, _ := newRunner(t, f, warmup.Settings{Models: []string{"m"}})
		begin := time.Now()
		report, err := runner.Run(anHour(t))
		if !errors.Is(err, backend.ErrCredentialsRefused) || time.Since(begin) > time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		if got := model(t, report, "m"); got.Outcome != warmup.Failed || !slices.Contains(got.Reasons, warmup.ReasonCredentialsRefused) {
			t.Errorf("got %+v", got)
		}
		if report.Steps[0].State != warmup.StepFailed || report.Steps[1].State != warmup.StepSkipped {
			t.Errorf("steps %+v", report.Steps)
		}
	})
}

func TestNotConvergedIsAnOutcomeAndNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {shape: "[1]", infer: func(n, _ int) (time.Duration, int, string) {
			return time.Duration(500-2*n) * ms, http.StatusOK, ""
		}}})
		runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{
			Steps: []warmup.StepConfig{infers("shapes", warmup.InferConfig{MaxRequests: 50})},
		}})
		report, err := runner.Run(anHour(t))
		got := model(t, report, "m")
		if err != nil || got.Outcome != warmup.Degraded || !slices.Equal(got.Reasons, []warmup.Reason{warmup.ReasonNotConverged}) || !strings.Contains(got.Text, "50 requests") {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestShapeThatMovesGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Twice as slow until the 30th request: the shape that is warmed first believes that to be its level.
		f := newFake(t, map[string]*fakeModel{"m": {infer: func(n, _ int) (time.Duration, int, string) {
			if n < 30 {
				return 40 * ms, http.StatusOK, ""
			}

			return 20 * ms, http.StatusOK, ""
		}}})
		runner, _, _ := newRunner(t, f, warmup.Settings{})
		report, err := runner.Run(anHour(t))
		if err != nil {
			t.Fatal(err)
		}
		if s := shapeOf(t, report, "m", "batch=1"); s.Rounds != 2 || s.State != warmup.ShapeConverged || s.Seen.Level > 21*ms || s.Seen.N != 34 {
			t.Errorf("the shape that was warmed first: %+v", s)
		}
		if s := shapeOf(t, report, "m", "batch=4"); s.Rounds != 1 || s.Seen.N != 19 {
			t.Errorf("the shape that was warmed last: %+v", s)
		}
	})
}

func TestShapeThatMovesEachTimeHasNotConverged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		f := newFake(t, map[string]*fakeModel{"m": {shape: "[1]", infer: func(int, int) (time.Duration, int, string) {
			// A spike whenever the verification begins.
			if n++; n == 15 || n == 30 || n == 45 {
				return time.Second, http.StatusOK, ""
			}

			return 20 * ms, http.StatusOK, ""
		}}})
		runner, _, _ := newRunner(t, f, warmup.Settings{})
		report, err := runner.Run(anHour(t))
		if s := shapeOf(t, report, "m", "batch=1"); err != nil || s.State != warmup.ShapeNotConverged || s.Rounds != 3 || !strings.Contains(s.Text, "3 verifications") {
			t.Errorf("got %+v, %v", s, err)
		}
	})
}

// TestEveryWorkerGetsItsShare has two processes behind one port, of which one gets requests only when the other is busy.
func TestEveryWorkerGetsItsShare(t *testing.T) {
	for _, test := range []struct {
		workers   int
		warm, all int
	}{{2, 3, 0}, {1, 0, 3}} {
		t.Run(fmt.Sprint(test.workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cold := 3
				var f *fake
				f = newFake(t, map[string]*fakeModel{"m": {shape: "[1]", infer: func(int, int) (time.Duration, int, string) {
					if f.inFlight > 0 && cold > 0 {
						cold--

						return time.Second, http.StatusOK, ""
					}

					return 20 * ms, http.StatusOK, ""
				}}})
				runner, _, _ := newRunner(t, f, warmup.Settings{Workers: test.workers})
				report, err := runner.Run(anHour(t))
				if err != nil || model(t, report, "m").Outcome != warmup.Warm {
					t.Errorf("got %+v, %v", report.Models, err)
				}
				if cold != test.all {
					t.Errorf("%d requests would still find the second process cold, expected %d", cold, test.all)
				}
				if test.workers == 1 {
					return
				}
				if s := shapeOf(t, report, "m", "batch=1 concurrency=2"); s.Seen.ColdEvents != test.warm || s.State != warmup.ShapeConverged || s.Seen.N != 32 {
					t.Errorf("got %+v", s)
				}
			})
		})
	}
}

func TestGuessedShapeMayBeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: func(_, batch int) (time.Duration, int, string) {
			if batch > 2 {
				return 0, http.StatusBadRequest, `{"error":"batch too large"}`
			}

			return 20 * ms, http.StatusOK, ""
		}}})
		runner, _, _ := newRunner(t, f, warmup.Settings{Workers: 2})
		report, err := runner.Run(anHour(t))
		if err != nil || model(t, report, "m").Outcome != warmup.Warm {
			t.Errorf("got %+v, %v", report.Models, err)
		}
		for shape, want := range map[string]warmup.ShapeState{
			"batch=1": warmup.ShapeConverged, "batch=2": warmup.ShapeConverged, "batch=8": warmup.ShapeRefused, "batch=8 concurrency=2": warmup.ShapeRefused,
		} {
			if s := shapeOf(t, report, "m", shape); s.State != want {
				t.Errorf("%s: %+v, expected %v", shape, s, want)
			}
		}
	})
}

func TestUntilIsANumberOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: coldly(20 * ms)}})
		runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: []warmup.StepConfig{
			infers("shapes", warmup.InferConfig{Until: 3, Grid: warmup.GridConfig{Batch: []int{1, 2}, Concurrency: []int{1}}}),
		}}})
		report, err := runner.Run(anHour(t))
		if s := shapeOf(t, report, "m", "batch=2"); err != nil || s.State != warmup.ShapeCounted || s.Seen.N != 3 || f.models["m"].n != 6 {
			t.Errorf("got %+v, %v, %d requests", s, err, f.models["m"].n)
		}
		if got := model(t, report, "m"); got.Outcome != warmup.Warm {
			t.Errorf("got %+v", got)
		}
	})
}

func TestTimeUsedUpIsNotConverged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"slow": {infer: steadily(10 * time.Second)}})
		runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Timeout: units.Duration(2 * time.Minute)}})
		report, err := runner.Run(anHour(t))
		got := model(t, report, "slow")
		if err != nil || got.Outcome != warmup.Degraded || !slices.Equal(got.Reasons, []warmup.Reason{warmup.ReasonNotConverged}) {
			t.Errorf("got %+v, %v", got, err)
		}
		for _, s := range report.Shapes {
			if s.Seen.N == 0 {
				t.Errorf("%s got no request", s.Shape())
			}
		}
	})
}

func TestNoRequestIsMadeUpForSequences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(ms), config: `{"sequence_batching":{}}`}})
		runner, _, _ := newRunner(t, f, warmup.Settings{})
		report, err := runner.Run(anHour(t))
		got := model(t, report, "m")
		if err != nil || got.Outcome != warmup.Unwarmed || !slices.Equal(got.Reasons, []warmup.Reason{warmup.ReasonWarmedNothing}) || !strings.Contains(got.Text, "sequence") {
			t.Errorf("got %+v, %v", got, err)
		}
		if f.models["m"].n != 0 {
			t.Errorf("%d requests were sent all the same", f.models["m"].n)
		}
		if err := runner.Synthetic(t.Context()); !errors.Is(err, backend.ErrNoRequest) {
			t.Errorf("synthetic request: %v, expected that none can be made up", err)
		}
	})
}

func TestServerWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(ms)}})
		f.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/v2/repository/index" {
				return false
			}
			http.NotFound(w, r)

			return true
		}
		runner, _, _ := newRunner(t, f, warmup.Settings{})
		if _, err := runner.Run(anHour(t)); !errors.Is(err, backend.ErrNotOffered) || !strings.Contains(err.Error(), "name them under models") {
			t.Errorf("got %v", err)
		}
		named, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: []warmup.StepConfig{infers("m", warmup.InferConfig{Model: "m"})}}})
		if report, err := named.Run(anHour(t)); err != nil || model(t, report, "m").Outcome != warmup.Warm {
			t.Errorf("named by its step: %+v, %v", report.Models, err)
		}
	})
}

func TestFailedStepFailsOnlyWhatNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := func(int, int) (time.Duration, int, string) { return 0, http.StatusInternalServerError, "broken" }
		f := newFake(t, map[string]*fakeModel{"a": {infer: bad}, "b": {infer: steadily(10 * ms)}, "c": {infer: steadily(10 * ms)}})
		only := func(name, model string, needs ...string) warmup.StepConfig {
			return retries(infers(name, warmup.InferConfig{Model: model, Until: 1}, needs...), 0)
		}
		runner, _, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: []warmup.StepConfig{
			only("first", "a"), only("second", "b", "first"), only("third", "b", "second"), only("other", "c"),
		}}, Required: func(model string) bool { return model != "b" }})
		report, err := runner.Run(anHour(t))
		want := []warmup.StepState{warmup.StepFailed, warmup.StepSucceeded, warmup.StepSkipped, warmup.StepSkipped}
		for i, s := range report.Steps {
			name := []string{"first", "other", "second", "third"}[i]
			if s.Name != name || s.State != want[i] {
				t.Errorf("step %d: %+v, expected %s %v", i, s, name, want[i])
			}
		}
		if err == nil || strings.Contains(err.Error(), "model b") || !strings.Contains(err.Error(), "step first: model a") {
			t.Errorf("got %v, expected the required model's", err)
		}
		if got := model(t, report, "b"); got.Outcome != warmup.Failed || !strings.Contains(got.Text, "needs first, which failed") {
			t.Errorf("model b: %+v", got)
		}
		if got := model(t, report, "c"); got.Outcome != warmup.Warm {
			t.Errorf("model c: %+v", got)
		}
	})
}

func TestCancelEndsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(hang)}})
		runner, _, _ := newRunner(t, f, warmup.Settings{})
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the backend is gone")
		time.AfterFunc(time.Second, func() { cancel(gone) })
		begin := time.Now()
		report, err := runner.Run(ctx)
		if !errors.Is(err, gone) || time.Since(begin) > 1100*ms {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		if model(t, report, "m").Outcome != warmup.Failed || report.Running {
			t.Errorf("got %+v", report)
		}
		synctest.Wait()
		if f.cancelled != 1 {
			t.Errorf("%d connections closed at the backend", f.cancelled)
		}
	})
}

func TestReportWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"a": {infer: coldly(20 * ms)}, "b": {infer: coldly(20 * ms)}})
		runner, _, _ := newRunner(t, f, warmup.Settings{Workers: 2})
		if report := runner.Report(); report.Run != 0 || runner.Remaining() != 0 || runner.Level() != 0 {
			t.Errorf("before the first run: %+v", report)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := runner.Run(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		begin := time.Now()
		var estimated []time.Duration
		for ticker := time.NewTicker(50 * ms); ; {
			select {
			case <-ticker.C:
				estimated = append(estimated, runner.Remaining()+time.Since(begin))
				if _, err := json.Marshal(runner.Report()); err != nil {
					t.Error(err)
				}
				if len(estimated) == 1 {
					if _, err := runner.Run(t.Context()); !errors.Is(err, warmup.ErrRunning) {
						t.Errorf("a second run: %v", err)
					}
				}

				continue
			case <-done:
			}
			ticker.Stop()

			break
		}
		took := time.Since(begin)
		if last := estimated[len(estimated)*9/10]; last < took*8/10 || last > took*12/10 {
			t.Errorf("near the end it was estimated to take %v, it took %v", last, took)
		}
		if runner.Remaining() != 0 {
			t.Errorf("%v remain after the end", runner.Remaining())
		}
	})
}

func TestSyntheticNeedsNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := http.StatusOK
		f := newFake(t, map[string]*fakeModel{
			"a": {infer: func(int, int) (time.Duration, int, string) { return ms, status, "" }}, "b": {infer: steadily(hang)},
		})
		runner, _, _ := newRunner(t, f, warmup.Settings{Required: func(model string) bool { return model == "a" }})
		for range 3 {
			if err := runner.Synthetic(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := f.count("POST /v2/models/a/infer"); n != 3 || f.count("GET /v2/models/a") != 1 || f.count("GET /v2") != 1 || f.count("POST /v2/repository/index") != 1 {
			t.Errorf("requests %v, expected what does not change to be asked once", f.paths)
		}
		status = http.StatusInternalServerError
		if err := runner.Synthetic(t.Context()); !errors.Is(err, backend.ErrBadAnswer) || !strings.Contains(err.Error(), "infer a batch=1: status 500") {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := runner.SyntheticModel(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
