package warmup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// kindFake is a kind of step that needs no backend, in tests.
var kindFake = Kind(1000)

// preparing returns a runner of such steps whose work is do, before a backend that never comes.
func preparing(t testing.TB, do func(ctx context.Context, s step) error, steps ...step) *Runner {
	t.Helper()
	alone[kindFake] = func(_ *Runner, ctx context.Context, s step) error { return do(ctx, s) }
	t.Cleanup(func() { delete(alone, kindFake) })
	client, err := backend.NewClient(backend.ClientSettings{Network: "tcp", Address: "backend:8000", DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("refused")
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewRunner(Settings{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		steps[i].kind = kindFake
		if steps[i].timeout == 0 {
			steps[i].timeout = time.Minute
		}
	}
	r.plan = Plan{steps: steps}
	r.before = r.plan.preparations()

	return r
}

func TestPreparedOnceEachStepHasEndedOrHitItsLimit(t *testing.T) {
	tests := []struct {
		name string
		do   func(ctx context.Context, s step) error
		took time.Duration
		text string
	}{
		{"it ends", func(context.Context, step) error {
			time.Sleep(3 * time.Second)

			return nil
		}, 6 * time.Second, ""},
		{"it hits its limit", func(ctx context.Context, _ step) error {
			<-ctx.Done()

			return context.Cause(ctx)
		}, time.Minute, "timed out after 1m0s"},
		{"it heeds no limit", func(context.Context, step) error {
			time.Sleep(10 * time.Minute)

			return nil
		}, time.Minute, "timed out after 1m0s"},
		{"it fails", func(context.Context, step) error { return errors.New("no such file") }, 0, "no such file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := preparing(t, test.do, step{name: "weights", before: true}, step{name: "more", needs: []string{"weights"}, before: true})
				if r.Prepared() {
					t.Error("it is prepared before anything has begun")
				}
				began := time.Now()
				r.Prepare(t.Context())
				if took := time.Since(began); took != test.took || !r.Prepared() {
					t.Errorf("prepared %v after %v, expected %v", r.Prepared(), took, test.took)
				}
				time.Sleep(time.Hour) // for the one that heeds nothing
				_, err := r.Run(t.Context())
				if test.text == "" && err != nil || test.text != "" && (err == nil || !strings.Contains(err.Error(), test.text)) {
					t.Errorf("the run: %v, expected %q", err, test.text)
				}
			})
		})
	}
}

// TestAFailedPreparationIsTriedAgain: the first run tells that it failed, the second one does it anew, the third one need not.
func TestAFailedPreparationIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := preparing(t, func(context.Context, step) error {
			if tries++; tries == 1 {
				return errors.New("no such file")
			}

			return nil
		}, step{name: "weights", before: true})
		r.Prepare(t.Context())
		for run, want := range []struct {
			ok    bool
			tries int
		}{{false, 1}, {true, 2}, {true, 2}} {
			if _, err := r.Run(t.Context()); (err == nil) != want.ok || tries != want.tries {
				t.Errorf("run %d: %v after %d tries", run+1, err, tries)
			}
		}
	})
}

// TestARunThatBeginsFirstDoesNothingTwice has two steps in a row, and a run that has begun before Prepare is called.
func TestARunThatBeginsFirstDoesNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := map[string]int{}
		r := preparing(t, func(_ context.Context, s step) error {
			time.Sleep(time.Second)
			done[s.name]++

			return nil
		}, step{name: "weights", before: true}, step{name: "more", needs: []string{"weights"}, before: true})
		ended := make(chan error)
		go func() {
			_, err := r.Run(t.Context())
			ended <- err
		}()
		synctest.Wait()
		r.Prepare(t.Context())
		if err := <-ended; err != nil || done["weights"] != 1 || done["more"] != 1 {
			t.Errorf("done %v, %v; expected each once", done, err)
		}
	})
}

func TestWithoutSuchStepsEverythingIsPrepared(t *testing.T) {
	if r := preparing(t, nil); !r.Prepared() {
		t.Error("it is not prepared")
	}
}

func TestOnlyWhatNeedsNoBackendGoesBeforeIt(t *testing.T) {
	_, err := NewPlan([]StepConfig{{Name: "up", Wait: &WaitConfig{}, BeforeBackend: true}})
	if err == nil || !strings.Contains(err.Error(), `step "up": a wait step needs the backend`) {
		t.Errorf("got %v", err)
	}
	err = Plan{steps: []step{{name: "up"}, {name: "weights", needs: []string{"up"}, before: true}}}.checkBefore()
	if err == nil || !strings.Contains(err.Error(), `step "weights" is before_backend and needs "up", which is not`) {
		t.Errorf("got %v", err)
	}
}

// overheadMost is what scheduling a thousand steps may cost in total.
const overheadMost = 5 * time.Millisecond

// BenchmarkThousandSteps runs ten layers of a hundred steps that do nothing, of which each needs three of the layer before.
func BenchmarkThousandSteps(b *testing.B) {
	var steps []step
	for i := range 1000 {
		made := step{name: fmt.Sprintf("step-%d", i)}
		if layer := i / 100; layer > 0 {
			for j := range 3 {
				made.needs = append(made.needs, fmt.Sprintf("step-%d", (layer-1)*100+(i+j*33)%100))
			}
		}
		steps = append(steps, made)
	}
	r := preparing(b, func(context.Context, step) error { return nil }, steps...)
	best := time.Hour // what others do at the same time is not our overhead
	for b.Loop() {
		began := time.Now()
		if _, err := r.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(began))
	}
	b.ReportMetric(float64(best.Microseconds())/1000, "ms-overhead")
	if best > overheadMost {
		b.Errorf("a thousand steps cost %v, allowed are %v", best, overheadMost)
	}
}
