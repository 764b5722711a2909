package health_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
)

// resting is a stage whose backend answers after a second and is warmed on demand.
func resting(t *testing.T, onDemand bool, waiting *atomic.Bool) *stage {
	t.Helper()

	return newStage(t, func(_ *stage, settings *health.KeeperSettings) {
		settings.OnDemand = onDemand
		settings.Waiting = waiting.Load
		settings.Answers = func(ctx context.Context) error {
			if !sleep(ctx, time.Second) {
				return context.Cause(ctx)
			}

			return nil
		}
	})
}

func TestFirstRequestStartsTheWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resting(t, true, &atomic.Bool{})
		s.after(500*time.Millisecond, health.Starting) // nobody answers yet: that is not idle
		s.after(time.Second, health.Idle)
		if !s.machine.Ready() {
			t.Error("an idle pod gets no request that could wake it")
		}
		s.after(time.Hour, health.Idle)
		if s.runs != 0 {
			t.Errorf("the plan was run %d times, and nobody asked", s.runs)
		}
		for range 100 { // one run for all of them
			s.keeper.Asked()
		}
		s.after(5*time.Second, health.Warming)
		s.after(6*time.Second, health.Ready)
		s.after(time.Hour, health.Ready)
		if s.runs != 1 {
			t.Errorf("the plan was run %d times", s.runs)
		}
		// A lost backend is idle again once it answers, and an old wish does not wake it.
		s.keeper.Asked()
		s.keeper.Lost(errors.New("refused"))
		s.after(0, health.Cold)
		s.after(time.Minute, health.Idle)
	})
}

func TestRequestThatWaitsAlreadyStartsTheWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := &atomic.Bool{}
		waiting.Store(true)
		s := resting(t, true, waiting)
		s.after(2*time.Second, health.Warming)
		s.after(10*time.Second, health.Ready)
	})
}

func TestOperatorWakesAnIdleBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resting(t, true, &atomic.Bool{})
		s.after(time.Minute, health.Idle)
		if err := s.keeper.Rewarm("asked for by the operator"); err != nil {
			t.Fatal(err)
		}
		s.after(5*time.Second, health.Warming)
	})
}

// TestC32AllowedUnloadIsIdle has a server that unloaded its model, which it may: nothing loads it again but a request.
func TestC32AllowedUnloadIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := resting(t, false, &atomic.Bool{})
		if err := s.keeper.Rest("too early"); err == nil {
			t.Error("a backend that is not warm was laid to rest")
		}
		s.after(11*time.Second, health.Ready)
		if err := s.keeper.Rest("the server has unloaded it"); err != nil {
			t.Fatal(err)
		}
		s.after(0, health.Idle)
		s.after(time.Hour, health.Idle)
		if s.runs != 1 || !s.machine.Ready() {
			t.Errorf("%d runs, ready %v", s.runs, s.machine.Ready())
		}
		s.keeper.Asked()
		s.after(11*time.Second, health.Ready)
		// Without an unloading, a lost backend is warmed at once.
		s.keeper.Lost(errors.New("refused"))
		s.after(5*time.Second, health.Warming)
	})
}
