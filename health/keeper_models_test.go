package health_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
)

// TestC29ModelNeedNotWaitForAnother has two models, of which the plan is through with one after 3 s, while the other hangs.
func TestC29ModelNeedNotWaitForAnother(t *testing.T) {
	for name, required := range map[string]bool{"the one that hangs is required": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, func(s *stage, _ *health.KeeperSettings) {
					s.warmIn = time.Minute
					s.warm = func(int) ([]health.ModelWarmth, error) { return nil, errors.New("bad hangs") }
				})
				good := health.ModelConfig{Name: "good", Required: true}
				s.after(2*time.Second, health.Warming)
				s.keeper.ModelsFound([]health.ModelConfig{good, {Name: "bad", Required: required}})
				if ready, _ := s.machine.ModelReady("good"); ready {
					t.Error("a model is ready although the plan has not ended for it")
				}
				time.Sleep(time.Second)
				s.keeper.ModelEnded(health.ModelWarmth{ModelConfig: good, State: health.Ready})
				s.keeper.ModelEnded(health.ModelWarmth{ModelConfig: health.ModelConfig{Name: "bad", Required: required}, State: health.Warming, Code: health.CodeWarmFailed})
				if ready, _ := s.machine.ModelReady("good"); !ready {
					t.Error("the model that is warm waits for the one that hangs")
				}
				if ready, _ := s.machine.ModelReady("bad"); ready {
					t.Error("the model that hangs is ready")
				}
				want := health.Ready
				if required {
					want = health.Warming
				}
				s.after(0, want)
				if required {
					// The next run begins, and takes nothing from the model that is warm.
					s.after(time.Minute, health.Warming)
					if ready, _ := s.machine.ModelReady("good"); !ready {
						t.Error("the model that is warm was taken back")
					}
				}
				// What an old run says about a backend that was lost is not about the new one.
				s.keeper.Lost(errors.New("refused"))
				s.keeper.ModelEnded(health.ModelWarmth{ModelConfig: good, State: health.Ready})
				if ready, _ := s.machine.ModelReady("good"); ready {
					t.Error("a lost backend has a ready model")
				}
			})
		})
	}
}

// TestTheBreakerHasTheLastWordOnceUsersWereLetIn opens the breaker between the moment at which the last model is warm and the end of the plan.
func TestTheBreakerHasTheLastWordOnceUsersWereLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := health.ModelWarmth{ModelConfig: health.ModelConfig{Name: "m", Required: true}, State: health.Ready}
		s := newStage(t, func(s *stage, _ *health.KeeperSettings) {
			s.warmIn = 10 * time.Second
			s.warm = func(int) ([]health.ModelWarmth, error) { return []health.ModelWarmth{model}, nil }
		})
		s.after(2*time.Second, health.Warming)
		s.keeper.ModelsFound([]health.ModelConfig{model.ModelConfig})
		s.keeper.ModelEnded(model)
		s.after(0, health.Ready)
		s.keeper.Opened(health.CodeFatalBackend, "poisoned")
		s.after(30*time.Second, health.Unhealthy) // the plan has ended long ago
		if codes := s.machine.Snapshot().Codes(); !slices.Contains(codes, health.CodeFatalBackend) {
			t.Errorf("the conditions are %v", codes)
		}
		s.keeper.Healed("a synthetic request passed")
		s.after(0, health.Ready)
		s.keeper.UsersFailing(true, "60 % fail")
		s.after(time.Minute, health.Degraded)
	})
}

// TestOneModelIsWarmedAgainBesideTheOthers has two models, of which the pod requires one.
func TestOneModelIsWarmedAgainBesideTheOthers(t *testing.T) {
	for name, required := range map[string]bool{"the pod requires it": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, other := health.ModelConfig{Name: "one", Required: required}, health.ModelConfig{Name: "other", Required: true}
				tries := 0
				s := newStage(t, func(s *stage, settings *health.KeeperSettings) {
					s.warm = func(int) ([]health.ModelWarmth, error) {
						return []health.ModelWarmth{{ModelConfig: one, State: health.Ready}, {ModelConfig: other, State: health.Ready}}, nil
					}
					settings.WarmModel = func(context.Context, string) (health.ModelWarmth, error) {
						time.Sleep(5 * time.Second)
						if tries++; tries == 1 {
							return health.ModelWarmth{}, errors.New("it failed")
						}

						return health.ModelWarmth{ModelConfig: one, State: health.Ready}, nil
					}
				})
				if err := s.keeper.RewarmModel("one", "asked for"); err == nil {
					t.Error("a model was warmed again before the first time")
				}
				s.after(time.Minute, health.Ready)
				if err := s.keeper.RewarmModel("none", "asked for"); err == nil || !strings.Contains(err.Error(), "no such model") {
					t.Errorf("an unknown model: %v", err)
				}
				for range 2 { // the second one finds the first
					if err := s.keeper.RewarmModel("one", "asked for"); err != nil {
						t.Fatal(err)
					}
				}
				want := health.Ready
				if required {
					want = health.Warming
				}
				s.after(time.Second, want)
				if ready, _ := s.machine.ModelReady("one"); ready {
					t.Error("the model is ready while it is warmed")
				}
				if ready, _ := s.machine.ModelReady("other"); !ready {
					t.Error("the other model is not ready")
				}
				s.after(5*time.Second, want)
				if model, _ := s.machine.Snapshot().Model("one"); len(model.Conditions) != 1 || model.Conditions[0].Code != health.CodeWarmFailed {
					t.Errorf("after a failure %+v", model)
				}
				s.after(10*time.Second, health.Ready)
				if ready, _ := s.machine.ModelReady("one"); !ready || tries != 2 {
					t.Errorf("ready %v after %d tries", ready, tries)
				}
			})
		})
	}
}

// TestAModelThatIsAskedForDuringThePlanIsWarmedAfterIt asks for a model that has been through the plan, while the plan has to do with another one, or pauses after it
// has failed. Nothing may run beside it, and nothing may claim a failure.
func TestAModelThatIsAskedForDuringThePlanIsWarmedAfterIt(t *testing.T) {
	good, bad := health.ModelConfig{Name: "good", Required: true}, health.ModelConfig{Name: "bad"}
	ready := health.ModelWarmth{ModelConfig: good, State: health.Ready}
	for _, test := range []struct {
		name  string
		fails int           // tries of the plan that fail
		when  time.Duration // it is asked for, after the backend has come
		again time.Duration // it is ready again
		alone int           // it was warmed by itself then
		serve bool          // warmup.on_failure
	}{
		{"the plan ends well", 0, 30 * time.Second, 62 * time.Second, 1, false},
		{"it fails, and is tried again", 1, 30 * time.Second, 120 * time.Second, 0, false},
		{"it waits for its next try", 1, 59100 * time.Millisecond, 120 * time.Second, 0, false},
		{"it fails, and the pod serves all the same", 1, 30 * time.Second, 62 * time.Second, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				alone, planning := 0, false
				s := newStage(t, func(s *stage, settings *health.KeeperSettings) {
					s.warmIn = time.Minute
					settings.ServeUnwarmed = test.serve
					settings.Warm = func(ctx context.Context, up func()) ([]health.ModelWarmth, error) {
						planning = true
						defer func() { planning = false }()
						return s.runPlan(ctx, up)
					}
					s.warm = func(run int) ([]health.ModelWarmth, error) {
						if run > 1 {
							s.keeper.ModelEnded(ready) // as at first, below
						}
						if run <= test.fails {
							return nil, errors.New("a step failed")
						}

						return []health.ModelWarmth{ready, {ModelConfig: bad, State: health.Ready}}, nil
					}
					settings.WarmModel = func(context.Context, string) (health.ModelWarmth, error) {
						if alone++; planning {
							t.Error("it is warmed beside the plan")
						}
						time.Sleep(3 * time.Second)

						return ready, nil
					}
				})
				s.after(time.Second, health.Warming)
				s.keeper.ModelsFound([]health.ModelConfig{good, bad})
				s.keeper.ModelEnded(ready)
				s.after(test.when, health.Ready)
				for range 2 { // the second one finds the first
					if err := s.keeper.RewarmModel("good", "asked for"); err != nil {
						t.Error(err)
					}
				}
				for at := test.when; at < test.again-time.Second; at += 100 * time.Millisecond {
					time.Sleep(100 * time.Millisecond)
					model, _ := s.machine.Snapshot().Model("good")
					if model.Ready || len(model.Conditions) > 0 {
						t.Fatalf("after %v: %+v", at, model)
					}
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if model, _ := s.machine.Snapshot().Model("good"); !model.Ready || alone != test.alone {
					t.Errorf("in the end: %+v, warmed by itself %d times, expected %d", model, alone, test.alone)
				}
			})
		})
	}
}

// TestAModelThatIsNotRequiredIsTriedAgain has one that cannot be warmed at first: the pod serves, and later the model does.
func TestAModelThatIsNotRequiredIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := health.ModelConfig{Name: "bad"}
		tries := 0
		s := newStage(t, func(s *stage, settings *health.KeeperSettings) {
			s.warm = func(int) ([]health.ModelWarmth, error) {
				return []health.ModelWarmth{
					{ModelConfig: health.ModelConfig{Name: "good", Required: true}, State: health.Ready},
					{ModelConfig: bad, State: health.Warming, Code: health.CodeWarmFailed, Text: "it failed"},
				}, nil
			}
			settings.WarmModel = func(context.Context, string) (health.ModelWarmth, error) {
				if tries++; tries < 3 {
					return health.ModelWarmth{}, errors.New("it failed")
				}

				return health.ModelWarmth{ModelConfig: bad, State: health.Ready}, nil
			}
		})
		s.after(10500*time.Millisecond, health.Ready)
		if ready, _ := s.machine.ModelReady("bad"); ready {
			t.Error("it is ready at once")
		}
		s.after(time.Minute, health.Ready)
		if ready, _ := s.machine.ModelReady("bad"); !ready || tries != 3 {
			t.Errorf("ready %v after %d tries", ready, tries)
		}
	})
}

// TestBackgroundEndedNeverTakesAModelOut has a background that failed, and one that comes too late.
func TestBackgroundEndedNeverTakesAModelOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := health.ModelConfig{Name: "m", Required: true}
		begun := make(chan context.Context, 2)
		s := newStage(t, func(s *stage, settings *health.KeeperSettings) {
			s.warm = func(int) ([]health.ModelWarmth, error) {
				return []health.ModelWarmth{{ModelConfig: m, State: health.Ready}}, nil
			}
			settings.Background = func(ctx context.Context) {
				begun <- ctx
				<-ctx.Done()
			}
		})
		s.after(time.Minute, health.Ready)
		background := <-begun
		s.keeper.BackgroundEnded(health.ModelWarmth{ModelConfig: m, State: health.Degraded, Code: health.CodeOptionalFailed, Text: "batch=4 failed"})
		s.after(0, health.Degraded)
		if !s.machine.Ready() {
			t.Error("the pod is not ready")
		}
		s.keeper.BackgroundEnded(health.ModelWarmth{ModelConfig: m, State: health.Warming, Code: health.CodeWarmFailed})
		s.after(0, health.Degraded)
		s.keeper.Lost(errors.New("refused"))
		if background.Err() == nil {
			t.Error("the background of a lost backend goes on")
		}
		s.keeper.BackgroundEnded(health.ModelWarmth{ModelConfig: m, State: health.Ready})
		if ready, _ := s.machine.ModelReady("m"); ready {
			t.Error("a lost backend has a ready model")
		}
	})
}
