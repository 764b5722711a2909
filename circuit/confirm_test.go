package circuit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestABadRateOpensOnlyAfterASyntheticRequestFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), fails).run()
		r.users(19, Bad)
		r.wantState(Closed)
		if r.timesAsked() != 0 {
			t.Error("asked before there were min_requests")
		}
		r.users(1, Bad)
		r.wantState(Open)
		r.wantHeard("closed > open: 100 % of 20 exchanges failed within 30s, synthetic request failed: model is sick")
		if r.timesAsked() != 1 {
			t.Errorf("asked %d times, expected once", r.timesAsked())
		}
		if _, err := r.Allow(); err != ErrOpen { //nolint:errorlint // the sentinel itself is the promise
			t.Errorf("Allow says %v, expected ErrOpen", err)
		}
	})
}

func TestARateBelowTheThresholdAsksNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), fails).run()
		r.users(21, Good)
		r.users(20, Bad)
		r.wantState(Closed)
		if r.timesAsked() != 0 {
			t.Error("asked at 49 %")
		}
		r.users(1, Bad)
		r.wantState(Open)
	})
}

func TestUsersFailingWhileTheSyntheticRequestPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := stallOff()
		r := newRig(t, c, passes).run()
		for range 60 {
			r.users(10, Bad)
			r.wait(time.Second)
		}
		r.wantState(Closed)
		r.wantHeard("users failing true: 100 % of 20 exchanges failed within 30s, synthetic request passed")
		if !r.Snapshot().UsersFailing {
			t.Error("the snapshot does not say that users fail")
		}
		// 0, 5, 15, 35 s: not at each of 600 bad verdicts.
		if got := r.timesAsked(); got != 4 {
			t.Errorf("asked %d times at %v, expected 4", got, r.asked)
		}
		for range 30 {
			r.users(30, Good)
			r.wait(time.Second)
		}
		r.wantHeard("users failing true", "users failing false")
		r.wantState(Closed)
		// And it may be suspected again.
		r.answers(fails)
		r.wait(time.Minute)
		r.users(20, Bad)
		r.wantState(Open)
	})
}

func TestUsersFailingEndsWhenTheWindowRunsEmpty(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), passes).run()
		r.users(20, Bad)
		r.wait(45 * time.Second)
		r.wantHeard("users failing true", "users failing false")
	})
}

func TestUsersFailingOpensWhenALaterSyntheticRequestFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stallOff(), passes).run()
		r.users(20, Bad)
		r.answers(fails)
		r.users(20, Bad)
		r.wantState(Closed)
		r.wait(6 * time.Second)
		r.wantState(Open)
		// Off before the move: nobody may take "no longer failing" for "healthy" when the breaker is open.
		r.wantHeard("users failing true", "users failing false: the breaker opens", "closed > open: ")
	})
}

func TestTheBluntRule(t *testing.T) {
	t.Parallel()
	unconfirmed := stallOff()
	unconfirmed.Confirm = false
	tests := []struct {
		name   string
		config Config
		answer func(context.Context) error
	}{
		{"no synthetic request is possible", stallOff(), nil},
		{"confirm is false", unconfirmed, passes},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.config, test.answer) // without Run: bluntness needs nobody
				r.users(19, Bad)
				r.wantState(Closed)
				r.users(1, Bad)
				r.wantState(Open)
				if r.timesAsked() != 0 {
					t.Error("asked although it is blunt")
				}
			})
		})
	}
}

func TestFailuresSlowerThanTheWindowCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := stallOff()
		c.Window = seconds(10)
		r := newRig(t, c, nil).run()
		under := make([]Exchange, 0, 20)
		for range 20 {
			under = append(under, r.allow())
		}
		r.wait(30 * time.Second)
		for _, e := range under {
			e.Start(Bad)
			e.End(false)
		}
		r.wantState(Open)
	})
}

func TestOneSyntheticRequestAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		under, most := 0, 0
		r := newRig(t, DefaultConfig(), func(ctx context.Context) error {
			under++
			most = max(most, under)
			defer func() { under-- }()

			return hangs(ctx)
		}).run()
		e := r.allow() // makes the stalled rule ask as well
		for range 300 {
			if x, err := r.Allow(); err == nil {
				x.Start(Bad)
				x.End(false)
			}
			r.wait(100 * time.Millisecond)
		}
		e.End(false)
		if most != 1 {
			t.Errorf("%d synthetic requests at once, expected 1", most)
		}
	})
}
