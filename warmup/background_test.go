package warmup_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/calm"
)

// shapesIn returns the shapes of a model that are, or are not, left for the background.
func shapesIn(report warmup.Report, background bool) []string {
	var found []string
	for _, s := range report.Shapes {
		if s.Background == background {
			found = append(found, s.Shape())
		}
	}

	return found
}

func TestDerivedShapesBetweenTheExtremesAreLeftForTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: coldly(20 * ms), config: `{"max_batch_size":16,"dynamic_batching":{"preferred_batch_size":[4]}}`}})
		f.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/v2" {
				_, _ = w.Write([]byte(`{"name":"triton","version":"2","extensions":["model_configuration"]}`))
			}

			return r.URL.Path == "/v2"
		}
		runner, seen, _ := newRunner(t, f, warmup.Settings{Background: true, Workers: 2})
		report, err := runner.Run(anHour(t))
		if err != nil || model(t, report, "m").Outcome != warmup.Warm {
			t.Fatalf("got %+v, %v", report.Models, err)
		}
		if got, want := shapesIn(report, false), []string{"batch=1", "batch=16", "batch=4", "batch=1 concurrency=2", "batch=16 concurrency=2", "batch=4 concurrency=2"}; !slices.Equal(got, want) {
			t.Errorf("required %v, expected %v", got, want)
		}
		if got, want := shapesIn(report, true), []string{"batch=2", "batch=8", "batch=2 concurrency=2", "batch=8 concurrency=2"}; !slices.Equal(got, want) {
			t.Errorf("left %v, expected %v", got, want)
		}
		if report.Running || report.Background.Left != 4 || report.Remaining != 0 {
			t.Errorf("at the end of the run: %+v", report.Background)
		}
		before := f.models["m"].n
		brief, end := context.WithTimeout(t.Context(), 9*time.Second)
		runner.Background(brief) // the users who come first have the backend to themselves
		end()
		if f.models["m"].n != before {
			t.Errorf("%d requests in the background at once", f.models["m"].n-before)
		}
		runner.Background(anHour(t))
		report = runner.Report()
		for _, s := range report.Shapes {
			if s.State != warmup.ShapeConverged {
				t.Errorf("after the background %s is %v: %s", s.Shape(), s.State, s.Text)
			}
		}
		if report.Background.Left != 0 || report.Background.Running || f.models["m"].n == before {
			t.Errorf("after the background: %+v", report.Background)
		}
		if ended := seen.of(warmup.BackgroundEnded); len(ended) != 1 || ended[0].Model.Outcome != warmup.Warm {
			t.Errorf("ended %+v", ended)
		}
		runner.Background(t.Context()) // the jobs are done
		if again := seen.of(warmup.BackgroundEnded); len(again) != 1 {
			t.Errorf("a second time: %+v", again)
		}
	})
}

// TestReadyAfterAllLeavesNothing is the other policy.
func TestReadyAfterAllLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: coldly(20 * ms)}})
		optional := infers("more", warmup.InferConfig{Grid: warmup.GridConfig{Batch: []int{32}}})
		optional.Optional = true
		runner, seen, _ := newRunner(t, f, warmup.Settings{Config: warmup.Config{Steps: []warmup.StepConfig{infers("shapes", warmup.InferConfig{}), optional}}})
		report, err := runner.Run(anHour(t))
		if err != nil || len(shapesIn(report, true)) != 0 || shapeOf(t, report, "m", "batch=32").State != warmup.ShapeConverged {
			t.Errorf("got %+v, %v", report.Shapes, err)
		}
		before := f.models["m"].n
		runner.Background(anHour(t))
		if f.models["m"].n != before || len(seen.of(warmup.BackgroundEnded)) != 0 {
			t.Error("there was something left for the background")
		}
	})
}

func TestOptionalStepsRunInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: coldly(20 * ms)}})
		only := func(name string, optional bool, batch int, needs ...string) warmup.StepConfig {
			made := infers(name, warmup.InferConfig{Grid: warmup.GridConfig{Batch: []int{batch}}}, needs...)
			made.Optional = optional

			return made
		}
		runner, seen, _ := newRunner(t, f, warmup.Settings{Background: true, Config: warmup.Config{Steps: []warmup.StepConfig{
			only("needed", true, 2), only("required", false, 1, "needed"), only("later", true, 3, "required"), only("last", true, 4, "later"),
		}}})
		report, err := runner.Run(anHour(t))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := shapesIn(report, false), []string{"batch=2", "batch=1"}; !slices.Equal(got, want) {
			t.Errorf("the run warmed %v, expected %v: what a required step needs is not left", got, want)
		}
		if got := report.Steps[2]; got.State != warmup.StepWaiting || !got.Background {
			t.Errorf("step %+v", got)
		}
		runner.Background(anHour(t))
		if got, want := shapesIn(runner.Report(), true), []string{"batch=3", "batch=4"}; !slices.Equal(got, want) {
			t.Errorf("the background warmed %v, expected %v", got, want)
		}
		if ended := seen.of(warmup.StepEnded); len(ended) != 4 || ended[3].Step != "last" || ended[3].Error != nil {
			t.Errorf("steps ended %+v", ended)
		}
	})
}

// TestBackgroundFailureIsACondition has sizes that the server cannot do: it says so, and nothing else.
func TestBackgroundFailureIsACondition(t *testing.T) {
	for _, test := range []struct {
		name string
		bad  int
		text string
	}{{"derived shape", 4, "step shapes, in the background: infer m batch=4"}, {"optional step", 32, "step more: infer m batch=32"}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]*fakeModel{"m": {infer: func(_, batch int) (time.Duration, int, string) {
					if batch == test.bad {
						return ms, http.StatusInternalServerError, "out of memory"
					}

					return 10 * ms, http.StatusOK, ""
				}}})
				more := infers("more", warmup.InferConfig{Grid: warmup.GridConfig{Batch: []int{32}}})
				more.Optional = true
				if test.bad != 32 {
					more.Infer.Grid.Batch = []int{1}
				}
				runner, seen, _ := newRunner(t, f, warmup.Settings{Background: true, Config: warmup.Config{Steps: []warmup.StepConfig{
					infers("shapes", warmup.InferConfig{}), more,
				}}})
				report, err := runner.Run(anHour(t))
				if got := model(t, report, "m"); err != nil || got.Outcome != warmup.Warm {
					t.Fatalf("the run: %+v, %v", got, err)
				}
				runner.Background(anHour(t))
				ended := seen.of(warmup.BackgroundEnded)
				if len(ended) != 1 || ended[0].Model.Outcome != warmup.Degraded || !slices.Equal(ended[0].Model.Reasons, []warmup.Reason{warmup.ReasonOptionalFailed}) {
					t.Fatalf("ended %+v", ended)
				}
				if text := ended[0].Model.Text; !strings.Contains(text, test.text) || !strings.Contains(text, "out of memory") {
					t.Errorf("%q does not say %q", text, test.text)
				}
				if s := shapeOf(t, runner.Report(), "m", "batch=2"); s.State != warmup.ShapeConverged {
					t.Errorf("another shape of the background: %+v", s)
				}
				if runner.Report().Error != "" {
					t.Errorf("the run failed: %s", runner.Report().Error)
				}
			})
		})
	}
}

// TestBackgroundNeverHarms has users who come in bursts. While one is there no request of the background is begun, at most one is under way, and it rests
// three times as long as it works. The required run before it has no such manners: the control.
func TestBackgroundNeverHarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users := func() bool { return time.Now().Second()%10 < 6 } // of each ten seconds six
		begun, inBackground := 0, false
		var f *fake
		f = newFake(t, map[string]*fakeModel{"m": {infer: func(int, int) (time.Duration, int, string) {
			if inBackground && users() {
				begun++
			}
			if f.inFlight > 0 && inBackground {
				t.Error("two requests of the background at once")
			}

			return 100 * ms, http.StatusOK, ""
		}}})
		runner, _, _ := newRunner(t, f, warmup.Settings{
			Background: true, Config: warmup.Config{Pressure: calm.DefaultConfig()},
			Occupied: func() string {
				if users() {
					return "users are served"
				}

				return ""
			},
		})
		began := time.Now()
		if _, err := runner.Run(anHour(t)); err != nil {
			t.Fatal(err)
		}
		control, before := float64(f.models["m"].n)*0.1/time.Since(began).Seconds(), f.models["m"].n
		began, inBackground = time.Now(), true
		runner.Background(anHour(t))
		if begun > 0 {
			t.Errorf("%d requests of the background were begun while users were served", begun)
		}
		share := float64(f.models["m"].n-before) * 0.1 / time.Since(began).Seconds()
		if share > 0.25 || share < 0.05 || control < 0.9 {
			t.Errorf("it worked for %.2f of the time, expected at most a quarter, and more than nothing; the run, which is the control, %.2f", share, control)
		}
		if left := runner.Report().Background.Left; left != 0 {
			t.Errorf("%d shapes are left", left)
		}
	})
}

// TestTheBackgroundRestsBetweenShapes has a shape of a single request in each step, so that all of its rests are between shapes.
func TestTheBackgroundRestsBetweenShapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(time.Second)}})
		steps := []warmup.StepConfig{infers("required", warmup.InferConfig{Until: 1, Grid: warmup.GridConfig{Batch: []int{1}}})}
		for i := range 10 {
			step := infers(fmt.Sprint("more-", i), warmup.InferConfig{Until: 1, Grid: warmup.GridConfig{Batch: []int{2 + i}}})
			step.Optional = true
			steps = append(steps, step)
		}
		runner, _, _ := newRunner(t, f, warmup.Settings{Background: true, Config: warmup.Config{Steps: steps}})
		if _, err := runner.Run(anHour(t)); err != nil {
			t.Fatal(err)
		}
		began, before := time.Now(), f.models["m"].n
		runner.Background(anHour(t))
		// Ten seconds for the first users, ten of work, and a rest of three before each but the first.
		if took, sent := time.Since(began), f.models["m"].n-before; sent != 10 || took < 47*time.Second || took > 48*time.Second {
			t.Errorf("%d requests in %v, expected 10 in 47 s", sent, took)
		}
	})
}

// TestBackgroundIsNotPutOffForEver has users who never leave.
func TestBackgroundIsNotPutOffForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(10 * ms)}})
		runner, _, _ := newRunner(t, f, warmup.Settings{
			Background: true, Occupied: func() string { return "users are served" }, Config: warmup.Config{Pressure: calm.DefaultConfig()},
		})
		if _, err := runner.Run(anHour(t)); err != nil {
			t.Fatal(err)
		}
		began, before := time.Now(), f.count("POST /v2/models/m/infer")
		time.AfterFunc(9*time.Minute, func() {
			if report := runner.Report(); f.count("POST /v2/models/m/infer") != before || report.Background.PutOff != "users are served" || !report.Background.Running || report.Background.Left != 2 {
				t.Errorf("after 9 minutes: %+v", report.Background)
			}
		})
		runner.Background(anHour(t))
		if took := time.Since(began); took < 10*time.Minute || took > 11*time.Minute || runner.Report().Background.Left != 0 {
			t.Errorf("took %v, expected that it begins after 10 minutes; %+v", took, runner.Report().Background)
		}
	})
}

func TestRestartCancelsTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := false
		f := newFake(t, map[string]*fakeModel{"m": {infer: func(int, int) (time.Duration, int, string) {
			if slow {
				return hang, http.StatusOK, ""
			}

			return 10 * ms, http.StatusOK, ""
		}}})
		runner, seen, _ := newRunner(t, f, warmup.Settings{Background: true})
		if _, err := runner.Run(anHour(t)); err != nil {
			t.Fatal(err)
		}
		slow = true
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Second, cancel)
		began := time.Now()
		runner.Background(ctx)
		synctest.Wait()
		if took := time.Since(began); took != 20*time.Second || f.cancelled != 1 {
			t.Errorf("took %v, and %d requests were cancelled at the backend", took, f.cancelled)
		}
		if ended := seen.of(warmup.BackgroundEnded); len(ended) != 0 {
			t.Errorf("it says that it has ended: %+v", ended)
		}
		slow = false
		if report, err := runner.Run(anHour(t)); err != nil || report.Background.Left == 0 {
			t.Errorf("the run after it: %+v, %v", report.Background, err)
		}
	})
}

// TestBackgroundNeverBurdensAPodThatDoesNotServe has one that is sick, or drains, for longer than anything is put off.
func TestBackgroundNeverBurdensAPodThatDoesNotServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(10 * ms)}})
		began := time.Now()
		runner, _, _ := newRunner(t, f, warmup.Settings{
			Background: true, Config: warmup.Config{Pressure: calm.DefaultConfig()},
			Serving: func() bool { return time.Since(began) > 20*time.Minute },
		})
		if _, err := runner.Run(anHour(t)); err != nil {
			t.Fatal(err)
		}
		before := f.count("POST /v2/models/m/infer")
		time.AfterFunc(19*time.Minute, func() {
			if report := runner.Report(); f.count("POST /v2/models/m/infer") != before || report.Background.PutOff != "the pod does not serve" {
				t.Errorf("after 19 minutes, and %d requests: %+v", f.count("POST /v2/models/m/infer")-before, report.Background)
			}
		})
		runner.Background(anHour(t))
		if took := time.Since(began); took < 20*time.Minute || runner.Report().Background.Left != 0 {
			t.Errorf("took %v, %+v", took, runner.Report().Background)
		}
	})
}
