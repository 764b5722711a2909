package warmup_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// TestAShapeOfTheBackgroundThatKillsTheBackendIsGivenUp has a server that is gone whenever it is asked for a batch of four, and a pod that begins anew each time, as
// often as the test lets it. The controls: a required shape is asked for each time, and so is one of the background under way when somebody asks for a re-warm.
func TestAShapeOfTheBackgroundThatKillsTheBackendIsGivenUp(t *testing.T) {
	const cycles = 5
	for _, test := range []struct {
		name     string
		required bool // the shape that kills is
		asked    bool // nothing kills, but a re-warm is asked for each time
		seen     time.Duration
		retries  int
		deadly   int
	}{
		{name: "the loss is seen first", deadly: 2},
		{name: "the request fails first", seen: 100 * ms, deadly: 2},
		{name: "and is not tried again", seen: 5 * time.Second, deadly: 2},
		{name: "control: required", required: true, deadly: cycles},
		{name: "control: a re-warm is asked for", asked: true, deadly: cycles},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runner *warmup.Runner
				var end context.CancelFunc
				deadly := 0
				f := newFake(t, map[string]*fakeModel{"m": {infer: func(_, batch int) (time.Duration, int, string) {
					if batch != 4 {
						return 10 * ms, http.StatusOK, ""
					}
					deadly++
					time.AfterFunc(test.seen, func() {
						if !test.asked {
							runner.Lost()
						}
						end()
					})
					if test.seen == 0 {
						return hang, http.StatusOK, ""
					}

					return 0, http.StatusInternalServerError, "the engine is dead"
				}}})
				step := func(name string, batch ...int) warmup.StepConfig {
					return retries(infers(name, warmup.InferConfig{Grid: warmup.GridConfig{Batch: batch}}), 0)
				}
				more := step("more", 2, 4, 6)
				more.Optional = !test.required
				var seen *events
				runner, seen, _ = newRunner(t, f, warmup.Settings{Background: true, Workers: 1, Config: warmup.Config{Steps: []warmup.StepConfig{step("shapes", 1), more}}})
				for range cycles {
					var ctx context.Context
					ctx, end = context.WithTimeout(t.Context(), time.Hour)
					if _, err := runner.Run(ctx); err == nil {
						runner.Background(ctx)
					}
					end()
				}
				if deadly != test.deadly {
					t.Errorf("the shape was asked for %d times, expected %d", deadly, test.deadly)
				}
				if test.deadly == cycles {
					return
				}
				report := runner.Report()
				if s := shapeOf(t, report, "m", "batch=4"); s.State != warmup.ShapeGivenUp || !strings.Contains(s.Text, "lost 2 times") || report.Background.Left != 0 {
					t.Errorf("got %+v, and %d are left", s, report.Background.Left)
				}
				for _, other := range []string{"batch=2", "batch=6"} {
					if s := shapeOf(t, report, "m", other); s.State != warmup.ShapeConverged {
						t.Errorf("another shape of the step: %+v", s)
					}
				}
				ended := seen.of(warmup.BackgroundEnded)
				if last := ended[len(ended)-1].Model; last.Outcome != warmup.Degraded || !slices.Equal(last.Reasons, []warmup.Reason{warmup.ReasonOptionalFailed}) || !strings.Contains(last.Text, "batch=4") {
					t.Errorf("the model: %+v", last)
				}
			})
		})
	}
}
