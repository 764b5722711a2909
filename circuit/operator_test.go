package circuit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestForcedOpenStaysOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), passes).run()
		r.Force(Open)
		r.wait(time.Hour)
		r.wantState(Open)
		if r.timesAsked() != 0 {
			t.Error("a forced breaker was tried")
		}
		if s := r.Snapshot(); !s.Forced || !s.NextTrial.IsZero() {
			t.Errorf("snapshot %+v, expected forced and no next trial", s)
		}
		r.Lost()
		r.wantState(Open)
		r.Reset()
		r.wantState(Closed)
		r.wantHeard("closed > open: forced open by the operator", "open > closed: reset by the operator")
		if r.Snapshot().Forced {
			t.Error("still forced after the reset")
		}
	})
}

func TestForcedClosedStaysClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), fails).run().opened()
		r.Force(Closed)
		r.users(100, Bad)
		r.allow() // and silence
		r.wait(5 * time.Minute)
		r.wantState(Closed)
		r.wantHeard("closed > open: ", "open > closed: forced closed by the operator")
		r.Reset()
		r.users(20, Bad)
		r.wantState(Open)
	})
}

func TestForcedHalfOpenTriesNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), fails).run().opened()
		r.answers(passes)
		r.wait(time.Millisecond)
		r.Force(HalfOpen)
		r.wantState(HalfOpen)
		r.users(3, Good)
		r.wantState(Closed)
		r.Force(HalfOpen)
		r.wait(time.Minute)
		r.wantState(Closed)
	})
}

func TestForcedHalfOpenInTheSameInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, usersFirst(), nil).run()
		r.Force(Open)
		r.Force(HalfOpen) // gobreaker cannot turn half-open in the nanosecond in which it opened
		r.wait(2 * time.Millisecond)
		r.wantState(HalfOpen)
	})
}

func TestLostForgetsWithoutAWord(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		setUp func(r *rig)
		heard []string
	}{
		{"closed", func(r *rig) { r.users(19, Bad) }, nil},
		{"open", func(r *rig) { r.opened() }, []string{"closed > open: "}},
		{"half-open", func(r *rig) { r.halfOpened() }, []string{"closed > open: ", "open > half-open: "}},
		{
			"users failing",
			func(r *rig) { r.answers(passes); r.users(20, Bad) },
			[]string{"users failing true: ", "users failing false: the backend is gone"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, DefaultConfig(), fails).run()
				old := r.allow()
				test.setUp(r)
				r.Lost()
				r.wantState(Closed)
				r.wantHeard(test.heard...)
				old.Start(Bad)
				old.End(true)
				if got := r.Snapshot().Window; got != (Tally{}) {
					t.Errorf("window %+v after the loss, expected nothing", got)
				}
				r.answers(fails)
				r.users(19, Bad)
				r.wantState(Closed)
				r.users(1, Bad)
				r.wantState(Open)
			})
		})
	}
}

func TestAnAnswerFromBeforeTheLossIsStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), hangs).run()
		r.users(20, Bad)
		r.wait(time.Second)
		r.Lost()
		r.wait(time.Minute)
		r.wantState(Closed)
		r.wantHeard()
	})
}

func TestAMoveOnItsWayIsDroppedByLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), nil)
		r.users(20, Bad)
		r.wantState(Open)
		r.Reset()
		r.Lost()
		r.run()
		r.wait(time.Minute)
		r.wantHeard()
	})
}

func TestResetForgetsTheBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), func(context.Context) error { return errSick }).run().opened()
		r.wait(5 * time.Minute)
		r.Reset()
		r.opened()
		if wait := time.Until(r.Snapshot().NextTrial); wait > 6*time.Second {
			t.Errorf("next trial in %s, expected open_for", wait)
		}
	})
}
