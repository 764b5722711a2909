package health_test

import (
	"errors"
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
