package health_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight-proxy/pilotlight/health"
)

// stage is a keeper among stand-ins for the other rooms. It must be used inside a synctest bubble.
type stage struct {
	t       *testing.T
	machine *health.Machine
	keeper  *health.Keeper
	cancel  context.CancelFunc
	ended   sync.WaitGroup

	mu     sync.Mutex
	runs   int
	warmIn time.Duration
	warm   func(run int) ([]health.ModelWarmth, error)
	report func(health.WatchEvent)
	gone   int
	sick   []string
	moves  []health.State
	late   int
}

func newStage(t *testing.T, change func(*stage, *health.KeeperSettings)) *stage {
	t.Helper()
	s := &stage{t: t, warmIn: 10 * time.Second}
	s.machine = health.NewMachine(health.Settings{
		Moved: func(move health.Move) { s.moves = append(s.moves, move.To) },
	})
	settings := health.KeeperSettings{
		Machine: s.machine,
		Warm:    s.runPlan,
		Watch: func(ctx context.Context, report func(health.WatchEvent)) {
			s.mu.Lock()
			s.report = report
			s.mu.Unlock()
			<-ctx.Done()
		},
		Gone:              func() { s.gone++ },
		Sick:              func(reason string) { s.sick = append(s.sick, reason) },
		WarmWhileDraining: func() { s.late++ },
	}
	if change != nil {
		change(s, &settings)
	}
	s.keeper = health.NewKeeper(settings)
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	s.ended.Go(func() {
		if err := s.keeper.Run(ctx); err != nil {
			t.Errorf("run keeper: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		s.ended.Wait()
	})

	return s
}

// runPlan answers up after a second and ends after warmIn.
func (s *stage) runPlan(ctx context.Context, up func()) ([]health.ModelWarmth, error) {
	s.mu.Lock()
	s.runs++
	run, warm := s.runs, s.warm
	s.mu.Unlock()
	if !sleep(ctx, time.Second) {
		return nil, context.Cause(ctx)
	}
	up()
	if !sleep(ctx, s.warmIn-time.Second) {
		return nil, context.Cause(ctx)
	}
	if warm != nil {
		return warm(run)
	}

	return []health.ModelWarmth{{ModelConfig: health.ModelConfig{Name: "m", Required: true}, State: health.Ready}}, nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// after lets d pass and checks the pod's state.
func (s *stage) after(d time.Duration, want health.State) {
	s.t.Helper()
	sleep(s.t.Context(), d)
	synctest.Wait()
	if got := s.machine.Pod(); got != want {
		s.t.Fatalf("the pod is %s, want %s; moves so far %v", got, want, s.moves)
	}
}

func (s *stage) see(event health.WatchEvent) {
	s.mu.Lock()
	report := s.report
	s.mu.Unlock()
	report(event)
	synctest.Wait()
}

func codes(machine *health.Machine) []health.Code { return machine.Snapshot().Codes() }

func TestKeeperWarmsThenFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.after(500*time.Millisecond, health.Starting)
		s.after(time.Second, health.Warming)
		s.after(8*time.Second, health.Warming)
		s.after(time.Second, health.Ready)
		if ready, known := s.machine.ModelReady("m"); !ready || !known {
			t.Errorf("model m: ready %t, known %t", ready, known)
		}
		s.see(health.WatchEvent{Kind: health.Lost, Cause: errors.New("connection refused")})
		s.after(0, health.Cold)
		if s.gone != 1 {
			t.Errorf("the breaker was told %d times that the backend is gone, want once", s.gone)
		}
		s.after(1500*time.Millisecond, health.Warming)
		s.after(10*time.Second, health.Ready)
		want := []health.State{health.Warming, health.Ready, health.Cold, health.Warming, health.Ready}
		if diff := cmp.Diff(want, s.moves); diff != "" {
			t.Error(diff)
		}
	})
}

func TestKeeperHoldsBeforeLostReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.after(11*time.Second, health.Ready)
		s.keeper.Lost(errors.New("dial: connection refused"))
		if got := s.machine.Pod(); got != health.Cold {
			t.Errorf("the pod is %s when Lost returns, want cold", got)
		}
		s.keeper.Lost(errors.New("dial: connection refused")) // many requests see it
		if s.gone != 1 {
			t.Errorf("gone was told %d times, want once", s.gone)
		}
	})
}

func TestKeeperLosesABackendThatDiesWhileWarming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.after(5*time.Second, health.Warming)
		s.see(health.WatchEvent{Kind: health.Restarted, Cause: errors.New("another process listens")})
		s.after(0, health.Cold)
		if diff := cmp.Diff([]health.Code{health.CodeBackendRestarted}, codes(s.machine)); diff != "" {
			t.Error(diff)
		}
		s.after(11*time.Second, health.Ready)
		if got := codes(s.machine); len(got) != 0 {
			t.Errorf("conditions left after the plan has ended: %v", got)
		}
		if s.runs != 2 {
			t.Errorf("the plan was run %d times, want 2", s.runs)
		}
	})
}

func TestKeeperIgnoresALateWordAboutAnOldBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.after(11*time.Second, health.Ready)
		old := s.report
		s.see(health.WatchEvent{Kind: health.Lost, Cause: errors.New("refused")})
		s.after(11*time.Second, health.Ready)
		old(health.WatchEvent{Kind: health.Lost, Cause: errors.New("refused, long ago")})
		s.after(0, health.Ready)
	})
}

func TestC39KeeperTriesAgainForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(s *stage, _ *health.KeeperSettings) {
			s.warm = func(run int) ([]health.ModelWarmth, error) {
				if run < 20 {
					return nil, errors.New("step shapes: not warm within 10m")
				}

				return nil, nil
			}
		})
		s.after(11*time.Second, health.Warming)
		if diff := cmp.Diff([]health.Code{health.CodeWarmFailed}, codes(s.machine)); diff != "" {
			t.Error(diff)
		}
		s.after(time.Hour, health.Ready)
		if got := codes(s.machine); len(got) != 0 {
			t.Errorf("conditions left: %v", got)
		}
	})
}

func TestKeeperNamesTheCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(s *stage, _ *health.KeeperSettings) {
			s.warm = func(int) ([]health.ModelWarmth, error) {
				return nil, &health.ConditionError{Code: health.CodeCredentialsRefused, Err: errors.New("the backend answers 401")}
			}
		})
		s.after(11*time.Second, health.Warming)
		if diff := cmp.Diff([]health.Code{health.CodeCredentialsRefused}, codes(s.machine)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestKeeperServesUnwarmedIfToldTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(s *stage, settings *health.KeeperSettings) {
			settings.ServeUnwarmed = true
			s.warm = func(int) ([]health.ModelWarmth, error) { return nil, errors.New("no") }
		})
		s.after(11*time.Second, health.Degraded)
		s.see(health.WatchEvent{Kind: health.Lost, Cause: errors.New("refused")}) // it still follows the backend
		s.after(0, health.Cold)
	})
}

func TestKeeperWaitsForABackendThatHasNotAnsweredThoughItWouldServeUnwarmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answers atomic.Bool
		s := newStage(t, func(s *stage, settings *health.KeeperSettings) {
			settings.ServeUnwarmed = true
			settings.Warm = func(ctx context.Context, up func()) ([]health.ModelWarmth, error) {
				if !answers.Load() {
					return nil, errors.New("nobody listens")
				}

				return s.runPlan(ctx, up)
			}
		})
		s.after(time.Minute, health.Starting)
		answers.Store(true)
		s.after(time.Minute, health.Ready)
	})
}

func TestKeeperNeverLetsAnOptionalModelGateThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, func(s *stage, _ *health.KeeperSettings) {
			s.warm = func(int) ([]health.ModelWarmth, error) {
				return []health.ModelWarmth{
					{ModelConfig: health.ModelConfig{Name: "a", Required: true}, State: health.Ready},
					{ModelConfig: health.ModelConfig{Name: "b"}, State: health.Warming, Code: health.CodeWarmFailed, Text: "batch 128: status 500"},
				}, nil
			}
		})
		s.after(11*time.Second, health.Ready)
		if ready, _ := s.machine.ModelReady("b"); ready {
			t.Error("model b is ready although it could not be warmed")
		}
	})
}

func TestKeeperAsksBeforeItBelievesAnEndpoint(t *testing.T) {
	for _, test := range []struct {
		name    string
		confirm error
		sick    int
	}{
		{"inference works", nil, 0},
		{"inference fails too", errors.New("no answer within 5s"), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, func(_ *stage, settings *health.KeeperSettings) {
					settings.Confirm = func(ctx context.Context) error {
						sleep(ctx, 5*time.Second)

						return test.confirm
					}
				})
				s.after(11*time.Second, health.Ready)
				s.see(health.WatchEvent{Kind: health.CheckFailed, Cause: errors.New("status 503"), InARow: 3})
				s.see(health.WatchEvent{Kind: health.CheckFailed, Cause: errors.New("status 503"), InARow: 4}) // meanwhile
				s.after(6*time.Second, health.Ready)
				if len(s.sick) != test.sick {
					t.Errorf("told that the backend is sick %d times, want %d", len(s.sick), test.sick)
				}
			})
		})
	}
}

func TestKeeperFollowsTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.keeper.Opened(health.CodeBreakerOpen, "before anything was warm")
		s.after(11*time.Second, health.Ready)
		s.keeper.Opened(health.CodeStalled, "20 of 30 exchanges failed")
		s.after(0, health.Unhealthy)
		if diff := cmp.Diff([]health.Code{health.CodeStalled}, codes(s.machine)); diff != "" {
			t.Error(diff)
		}
		s.keeper.Healed("a synthetic request passed")
		s.after(0, health.Ready)
		if got := codes(s.machine); len(got) != 0 {
			t.Errorf("conditions left: %v", got)
		}
		s.keeper.Opened(health.CodeBreakerOpen, "again")
		s.keeper.Lost(errors.New("refused"))
		s.keeper.Healed("a late word about a backend that is gone")
		s.after(0, health.Cold)
		s.after(12*time.Second, health.Ready)
		s.keeper.UsersFailing(true, "60 % of users' requests fail")
		s.after(0, health.Degraded)
		s.keeper.UsersFailing(false, "")
		s.after(0, health.Ready)
	})
}

func TestKeeperRewarmsOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		if err := s.keeper.Rewarm("asked for"); err == nil {
			t.Error("re-warm while starting: no error")
		}
		s.after(11*time.Second, health.Ready)
		if err := s.keeper.Rewarm("asked for"); err != nil {
			t.Fatal(err)
		}
		s.after(0, health.Warming)
		s.after(11*time.Second, health.Ready)
	})
}

func TestKeeperLetsHeldRequestsGoWhenWarmWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.after(5*time.Second, health.Warming)
		s.machine.MoveAll(health.Draining, "SIGTERM")
		s.after(6*time.Second, health.Draining)
		if s.late != 1 {
			t.Errorf("told %d times that held requests can go, want once", s.late)
		}
	})
}
