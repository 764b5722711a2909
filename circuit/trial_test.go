package circuit

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// halfOpened returns a breaker that a good synthetic request, or its back-off alone, has made half-open.
func (r *rig) halfOpened() *rig {
	r.t.Helper()
	r.opened()
	if r.synthetic != nil {
		r.answers(passes)
	}
	r.wait(6 * time.Second)
	r.wantState(HalfOpen)

	return r
}

func usersFirst() Config {
	c := stallOff()
	c.HalfOpen.Synthetic = false

	return c
}

func TestAnOpenBreakerHealsWithoutUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), fails).run().halfOpened()
		if got := r.heardAt(); got < 4*time.Second || got > 6*time.Second {
			t.Errorf("half-open after %s, expected open_for and at most 20 %% of it", got)
		}
		r.wait(29*time.Second + 500*time.Millisecond - 6*time.Second + r.heardAt())
		r.wantState(HalfOpen)
		r.wait(time.Second)
		r.wantState(Closed)
		r.wantHeard("closed > open: ", "open > half-open: synthetic request passed", "half-open > closed: synthetic request passed, and users had 0 good and 0 bad trials within 30s")
	})
}

func TestBackOffDoublesToAMinuteWithJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), fails).run().opened()
		r.wait(10 * time.Minute)
		r.wantState(Open)
		r.wantHeard("closed > open: ")
		trials := append([]time.Duration{0}, r.asked[1:]...)
		want := 5 * time.Second
		even := true
		for i := 1; i < len(trials); i++ {
			gap := trials[i] - trials[i-1]
			if gap < want*8/10 || gap > want*12/10 {
				t.Errorf("trial %d came after %s, expected %s and at most 20 %% of it", i, gap, want)
			}
			even = even && gap == want
			want = min(2*want, time.Minute)
		}
		if len(trials) < 10 {
			t.Fatalf("only %d trials in ten minutes", len(trials))
		}
		if even {
			t.Error("no jitter")
		}
	})
}

func TestBackOffIsShortAgainOnlyAfterAStableMinute(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		closed   time.Duration
		min, max time.Duration
	}{
		{"at once", time.Second, 8 * time.Second, 12 * time.Second},
		{"after a minute", time.Minute, 4 * time.Second, 6 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stallOff(), fails).run().halfOpened()
				r.users(3, Good)
				r.wantState(Closed)
				r.wait(test.closed)
				r.opened()
				if wait := time.Until(r.Snapshot().NextTrial); wait < test.min || wait > test.max {
					t.Errorf("next trial in %s, expected %s to %s", wait, test.min, test.max)
				}
			})
		})
	}
}

func TestASyntheticTrialHasADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), fails).run().opened()
		r.answers(hangs)
		r.wait(37 * time.Second)
		r.wantState(Open)
		// Even one that does not listen to its context is only left behind.
		deaf := make(chan struct{})
		r.answers(func(context.Context) error { <-deaf; return nil })
		r.wait(2 * time.Minute)
		r.wantState(Open)
		r.answers(passes)
		r.wait(2 * time.Minute)
		r.wantState(Closed)
		close(deaf)
	})
}

func TestUsersTrialsAreJudgedByTheFailureRate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		requests int
		verdicts []Verdict
		want     State
	}{
		{"all good", 3, []Verdict{Good, Good, Good}, Closed},
		{"one of three bad", 3, []Verdict{Bad, Good, Good}, Closed},
		{"two of three bad", 3, []Verdict{Bad, Good, Bad}, Open},
		{"one of one bad", 1, []Verdict{Bad}, Open},
		{"not enough yet", 3, []Verdict{Good}, HalfOpen},
		{"none gives its slot back", 3, []Verdict{None, None, None, None, Good, None, Good}, Closed},
		{"one of twenty bad", 20, append([]Verdict{Bad}, many(Good, 19)...), Closed},
		{"ten of twenty bad", 20, append(many(Good, 10), many(Bad, 10)...), Open},
	}
	for _, test := range tests {
		for _, synthetic := range []bool{true, false} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := stallOff()
					c.HalfOpen.Synthetic = synthetic
					c.HalfOpen.Requests = test.requests
					r := newRig(t, c, passes).run().halfOpened()
					for _, v := range test.verdicts {
						r.users(1, v)
					}
					r.wantState(test.want)
				})
			})
		}
	}
}

func many(v Verdict, n int) []Verdict {
	all := make([]Verdict, n)
	for i := range all {
		all[i] = v
	}

	return all
}

func TestC44TimelyClientErrorsClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := stallOff()
		c.HalfOpen.Requests = 5
		r := newRig(t, c, passes).run().halfOpened()
		for i := range 5 { // four timely 404, which are good, and one 200
			r.wantNoneFailed()
			r.users(1, Good)
			if i < 2 {
				r.wantState(HalfOpen)
			}
		}
		r.wantState(Closed)
	})
}

func (r *rig) wantNoneFailed() {
	r.t.Helper()
	e := r.allow()
	e.End(false)
}

func TestC47LocalRefusalsNeverCycle(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{stallOff(), usersFirst()} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, c, passes).run().halfOpened()
			for range 25 { // seconds, in which no permit is free
				r.users(10, None)
				r.wait(time.Second)
				r.wantState(HalfOpen)
			}
			r.users(3, Good)
			r.wantState(Closed)
			r.wantHeard("closed > open: ", "open > half-open: ", "half-open > closed: ")
			r.users(1000, None)
			r.wait(5 * time.Minute)
			r.wantState(Closed)
		})
	}
}

func TestHalfOpenFailsNoUserForBeingOneTooMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stallOff(), passes).run().halfOpened()
		under := make([]Exchange, 0, 10)
		for range 10 {
			under = append(under, r.allow())
		}
		if got := r.Snapshot(); got.Trials != (Tally{None: 3}) || got.InFlight != 10 {
			t.Errorf("trials %+v and %d in flight, expected 3 of 10", got.Trials, got.InFlight)
		}
		// Those beyond the trials decide nothing.
		for _, e := range under[3:] {
			e.Start(Bad)
		}
		r.wantState(HalfOpen)
		for _, e := range under {
			e.Start(Good)
			e.End(false)
		}
		r.wantState(Closed)
		if got := r.Snapshot().Window; got != (Tally{Good: 3, Bad: 7}) {
			t.Errorf("window %+v, expected every verdict since the opening", got)
		}
	})
}

func TestATrialThatNeverEndsDoesNotWedge(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config Config
		later  func(context.Context) error
		want   State
		reason string
	}{
		{"the server is healthy: a long inference", stallOff(), passes, Closed, "half-open > closed: synthetic request passed while 3 trials take long"},
		{"the server hangs", stallOff(), hangs, Open, "half-open > open: 3 trials without an answer within 30s, synthetic request failed"},
		{"users are the trials", usersFirst(), passes, Open, "half-open > open: 3 of 3 trials failed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.config, passes).run().halfOpened()
				for range 3 {
					r.allow() // and never ended
				}
				r.answers(test.later)
				r.wait(20 * time.Second)
				r.wantState(HalfOpen)
				r.wait(16 * time.Second)
				if got := r.all()[2]; !strings.HasPrefix(got, test.reason) {
					t.Errorf("heard %q, expected %q", got, test.reason)
				}
			})
		})
	}
}

func TestALongStreamWithAGoodStartIsAGoodTrial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, usersFirst(), nil).run().halfOpened()
		for range 3 {
			r.allow().Start(Good)
		}
		r.wantState(Closed)
	})
}

func TestABreakReplacesAGoodTrial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := usersFirst()
		c.HalfOpen.Requests = 5
		r := newRig(t, c, nil).run().halfOpened()
		for range 3 {
			e := r.allow()
			e.Start(Good)
			if r.Snapshot().State == HalfOpen {
				e.End(true)
			}
		}
		r.wantState(Open)
	})
}

func TestHalfOpenWithoutUsersAndWithoutSyntheticWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, usersFirst(), nil).run().halfOpened()
		r.wait(time.Hour)
		r.wantState(HalfOpen)
		r.users(3, Good)
		r.wantState(Closed)
	})
}
