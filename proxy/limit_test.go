package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// line waits at a gate with many tickets and notes in which order they are let through. Use it inside a synctest bubble.
type line struct {
	t       *testing.T
	gate    *Gate
	mu      sync.Mutex
	through []string
	ended   map[string]Outcome
	tickets map[string]*Ticket
}

func newLine(t *testing.T, g *Gate) *line {
	t.Helper()

	return &line{t: t, gate: g, ended: map[string]Outcome{}, tickets: map[string]*Ticket{}}
}

// come lets requests arrive one after the other.
func (l *line) come(names ...string) {
	for _, name := range names {
		ticket := &Ticket{}
		l.tickets[name] = ticket
		l.wait(name, ticket)
	}
}

func (l *line) wait(name string, ticket *Ticket) {
	waiter(l.t.Context(), l.gate, ticket, func(o Outcome) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended[name] = o
		if o == Proceed {
			l.through = append(l.through, name)
		}
	})
	synctest.Wait()
}

func (l *line) done(names ...string) {
	for _, name := range names {
		l.gate.Done(l.tickets[name])
	}
	synctest.Wait()
}

// answered ends exchanges with a good answer.
func (l *line) answered(names ...string) {
	for _, name := range names {
		l.gate.Good(l.tickets[name])
		l.gate.Done(l.tickets[name])
	}
	synctest.Wait()
}

func (l *line) want(names ...string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	// Who is let through at the same moment may say so in any order.
	if got := slices.Sorted(slices.Values(l.through)); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
		l.t.Errorf("through are %v, want %v", got, names)
	}
}

// outcome returns how the wait of one has ended, if it has.
func (l *line) outcome(name string) (outcome Outcome, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	outcome, ended = l.ended[name]

	return outcome, ended
}

func (l *line) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return len(l.through)
}

func TestLimitKeepsOneLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := passing(testGate(limited(2)))
		l := newLine(t, g)
		l.come("a", "b", "c", "d")
		l.want("a", "b")
		if s := g.Snapshot(); s.Mode != Passing || s.Permits != 2 || s.Permitted != 2 || s.Held != 2 || s.Limit != units.Of(2) {
			t.Errorf("%+v", s)
		}
		time.Sleep(5 * patience) // a fixed limit writes no permit off
		l.come("e")
		l.want("a", "b")
		l.done("b")
		l.want("a", "b", "e") // c and d are gone by now: max_wait.restart
		for _, name := range []string{"c", "d"} {
			if got, _ := l.outcome(name); got != Crowded {
				t.Errorf("%s: %s, want %s", name, got, Crowded)
			}
		}
	})
}

func TestLimitLetsInOrderAndReturnedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := passing(testGate(limited(2)))
		l := newLine(t, g)
		l.come("a", "b", "c", "d", "e")
		l.done("a")
		l.want("a", "b", "c")
		g.Return(l.tickets["b"], time.Now().Add(-time.Second)) // its permit is d's at once
		l.wait("b again", l.tickets["b"])
		l.done("c")
		l.want("a", "b", "c", "d", "b again")
		l.done("b")
		l.want("a", "b", "c", "d", "b again", "e")
		l.done("d", "e")
		if s := g.Snapshot(); s.Permitted != 0 || s.Held != 0 {
			t.Errorf("left behind: %+v", s)
		}
	})
}

// TestLimitHoldsWithinTheBoundsOfAHold has one permit, which is out.
func TestLimitHoldsWithinTheBoundsOfAHold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*GateSettings)
		ticket Ticket
		body   *Body
		drain  bool
		want   Outcome
		after  time.Duration
	}{
		{name: "max_wait", want: Crowded, after: 10 * time.Second},
		{name: "the caller's deadline", ticket: Ticket{hurried: true}, want: Expired, after: time.Second},
		{name: "max_requests", change: func(s *GateSettings) { s.Hold.MaxRequests = 0 }, want: Full},
		{name: "max_body", change: func(s *GateSettings) { s.Hold.MaxBody = 9 }, body: &Body{length: 10}, want: TooLarge},
		{name: "memory", change: func(s *GateSettings) { s.Memory = 9 }, body: &Body{length: 10}, want: Full},
		{name: "drain", drain: true, want: Drained},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := passing(testGate(func(s *GateSettings) {
					s.Concurrency.Limit = units.Of(1)
					if test.change != nil {
						test.change(s)
					}
				}))
				newLine(t, g).come("a")
				if test.ticket.hurried {
					test.ticket = Ticket{expires: time.Now().Add(test.after)}
				}
				if test.body != nil {
					test.body.changed.L = &test.body.mu
				}
				if test.drain {
					g.Drain(RefuseHeld)
				}
				begun := time.Now()
				if got := g.Wait(t.Context(), &test.ticket, test.body); got != test.want || time.Since(begun) != test.after {
					t.Errorf("%s after %s, want %s after %s", got, time.Since(begun), test.want, test.after)
				}
			})
		})
	}
}

// TestLimitRefusesTheHopeless has one permit and exchanges of a second each: who has more before him than fit into his time need not wait for that.
func TestLimitRefusesTheHopeless(t *testing.T) {
	t.Parallel()
	for _, failFast := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := passing(testGate(func(s *GateSettings) {
				s.Concurrency.Limit = units.Of(1)
				s.Hold.FailFast = failFast
				s.Hold.MaxWait.Restart = units.Duration(time.Hour)
			}))
			l := newLine(t, g)
			for i := range 30 {
				l.come(fmt.Sprint(i))
			}
			late := func(left time.Duration) (Outcome, time.Duration) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ticket, begun := Ticket{expires: time.Now().Add(left)}, time.Now()
				outcome := g.Wait(ctx, &ticket, nil)

				return outcome, time.Since(begun)
			}
			if got, after := late(time.Millisecond); got != Expired || after != time.Millisecond {
				t.Errorf("%s after %s while nothing is known", got, after)
			}
			for i := range 10 {
				time.Sleep(time.Second)
				l.done(fmt.Sprint(i))
			}
			want, wantAfter := Expired, 10*time.Second
			if failFast {
				want, wantAfter = Hopeless, 0
			}
			if got, after := late(10 * time.Second); got != want || after != wantAfter {
				t.Errorf("fail_fast %t: %s after %s with 19 ahead, want %s after %s", failFast, got, after, want, wantAfter)
			}
			// Who has time enough waits, and the forecast does not outlive the line.
			for i := 10; i < 30; i++ {
				l.done(fmt.Sprint(i))
			}
			if got, _ := late(time.Millisecond); got != Proceed {
				t.Errorf("%s with nobody there", got)
			}
		})
	}
}

// TestFixedLimitShrinksForAWhile has a backend that refuses: permits are halved once per window, come back one per window of good answers, and all at once after a quiet time, even
// if what is out is stuck.
func TestFixedLimitShrinksForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := passing(testGate(func(s *GateSettings) {
			s.Concurrency.Limit = units.Of(8)
			s.Hold.MaxWait.Restart = units.Duration(time.Hour)
		}))
		l := newLine(t, g)
		permits := func(want int) {
			t.Helper()
			if s := g.Snapshot(); s.Permits != want || s.Permitted > 8 || s.Mode != Passing {
				t.Errorf("%d permits, %d out, %s: want %d permits", s.Permits, s.Permitted, s.Mode, want)
			}
		}
		l.come("a", "b", "c", "d", "e", "f", "g", "h")
		if !g.Busy(l.tickets["a"]) || !g.Busy(l.tickets["b"]) {
			t.Error("not limited")
		}
		permits(4)
		l.done("a", "b", "c", "d", "e", "f", "g", "h")
		l.come("i", "j", "k", "l", "m")
		if _, ok := l.outcome("m"); ok {
			t.Error("the fifth is let through")
		}
		l.answered("i", "j", "k", "l")
		permits(5)
		l.come("n", "o", "p", "q", "r") // with m: one more than permits
		if _, ok := l.outcome("r"); ok {
			t.Error("the sixth is let through")
		}
		time.Sleep(quiet)
		synctest.Wait()
		permits(8)
		if _, ok := l.outcome("r"); !ok {
			t.Error("after a quiet time the line still waits for what is stuck")
		}
	})
}

func TestLimitIsNeverExceededByARampWithStuckItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := testGate(func(s *GateSettings) {
			s.Concurrency.Limit = units.Of(4)
			s.Hold.MaxWait.Start = units.Duration(time.Hour)
		})
		l := newLine(t, g)
		for i := range 20 {
			l.come(fmt.Sprint(i))
		}
		open(g)
		synctest.Wait()
		next := 4
		for i := 1; i < 17; i++ { // 0 is stuck
			time.Sleep(patience / 2)
			if s := g.Snapshot(); s.Permitted != 4 || l.count() != next {
				t.Fatalf("%d out, %d through after %d answers", s.Permitted, l.count(), i-1)
			}
			l.answered(fmt.Sprint(i))
			next++
		}
		if s := g.Snapshot(); s.Mode != Passing {
			t.Errorf("%s, though the limit is all that bounds", s.Mode)
		}
	})
}

func TestConfigureChangesTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := passing(testGate(nil))
		l := newLine(t, g)
		configure := func(limit units.Auto[int]) {
			g.Configure(DefaultHold(), 1<<20, ConcurrencyConfig{Limit: limit, Ramp: RampConfig{Start: 2}})
			synctest.Wait()
		}
		l.come("a") // without a permit: it never counts
		configure(units.Of(1))
		l.come("b", "c", "d", "e", "f", "g", "h")
		l.want("a", "b")
		configure(units.Of(3))
		l.want("a", "b", "c", "d")
		configure(units.Of(2))
		l.done("a", "b")
		l.want("a", "b", "c", "d")
		l.done("c")
		l.want("a", "b", "c", "d", "e")
		configure(units.Auto[int]{}) // begins anew, with ramp.start
		l.want("a", "b", "c", "d", "e")
		configure(units.Of(0)) // nobody else waits, and those who do go gently
		if s := g.Snapshot(); s.Mode != Ramping || s.Held != 3 {
			t.Errorf("%+v", s)
		}
		l.answered("d")
		l.answered("e")
		l.want("a", "b", "c", "d", "e", "f", "g", "h")
		l.answered("f", "g", "h")
		if g.Mode() != Passing {
			t.Errorf("%s", g.Mode())
		}
		l.come("i", "j", "k", "l", "m", "n")
		if s := g.Snapshot(); s.Held != 0 || s.Permitted != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestLimitIsNoBacklog has a gate at its limit: readiness is not withheld for those who wait there.
func TestLimitIsNoBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		released := 0
		g := testGate(func(s *GateSettings) {
			s.Concurrency.Limit = units.Of(1)
			s.Released = func() { released++ }
		})
		l := newLine(t, g)
		l.come("a", "b")
		open(g)
		synctest.Wait()
		l.answered("a")
		l.come("c")
		if g.Mode() != Passing || g.Backlog() != 1 || released != 0 {
			t.Errorf("%s, backlog %d, released %d", g.Mode(), g.Backlog(), released)
		}
		l.answered("b")
		l.come("d")
		if g.Backlog() != 0 || released != 1 {
			t.Errorf("backlog %d, released %d", g.Backlog(), released)
		}
		g.Hold() // d waits for the backend now
		if g.Backlog() != 1 {
			t.Errorf("backlog %d", g.Backlog())
		}
	})
}
