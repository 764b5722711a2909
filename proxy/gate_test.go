package proxy

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"pgregory.net/rapid"
)

func testGate(change func(*GateSettings)) *Gate {
	settings := GateSettings{Hold: DefaultHold(), Memory: 1 << 20, Concurrency: DefaultConcurrency()}
	if change != nil {
		change(&settings)
	}

	return NewGate(settings)
}

// passing opens a gate for good, as one good answer with nobody waiting does.
func passing(g *Gate) *Gate {
	g.Follow(health.Move{From: health.Warming, To: health.Ready})
	var t Ticket
	g.Wait(context.Background(), &t, nil)
	g.Good(&t)
	g.Done(&t)

	return g
}

func TestPassingCostsNothing(t *testing.T) {
	g := passing(testGate(nil))
	if g.Mode() != Passing {
		t.Fatalf("the gate is %s", g.Mode())
	}
	var ticket Ticket
	ctx := t.Context()
	allocations := testing.AllocsPerRun(1000, func() {
		if g.Wait(ctx, &ticket, nil) != Proceed {
			t.Fatal("refused")
		}
		g.Good(&ticket)
		g.Done(&ticket)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func BenchmarkPassing(b *testing.B) {
	g := passing(testGate(nil))
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var ticket Ticket
		for pb.Next() {
			if g.Wait(ctx, &ticket, nil) != Proceed {
				b.Fatal("refused")
			}
			g.Done(&ticket)
		}
	})
}

func TestFollowHasTheGateColumnOfTheStateTable(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		move      health.Move
		whileOpen circuit.WhileOpen
		before    Mode
		want      Mode
	}{
		{"idle holds", health.Move{From: health.Starting, To: health.Idle}, circuit.Reject, Holding, Holding},
		{"ready ramps", health.Move{From: health.Warming, To: health.Ready}, circuit.Reject, Holding, Ramping},
		{"degraded ramps", health.Move{From: health.Warming, To: health.Degraded}, circuit.Reject, Holding, Ramping},
		{"ready to degraded changes nothing", health.Move{From: health.Ready, To: health.Degraded}, circuit.Reject, Passing, Passing},
		{"cold holds", health.Move{From: health.Ready, To: health.Cold}, circuit.Reject, Passing, Holding},
		{"unhealthy refuses", health.Move{From: health.Ready, To: health.Unhealthy}, circuit.Reject, Passing, Refusing},
		{"unhealthy holds if so wished", health.Move{From: health.Ready, To: health.Unhealthy}, circuit.Hold, Passing, Holding},
		{"draining keeps passing", health.Move{From: health.Ready, To: health.Draining}, circuit.Reject, Passing, Passing},
		{"draining keeps holding", health.Move{From: health.Warming, To: health.Draining}, circuit.Reject, Holding, Holding},
		{"stopped refuses", health.Move{From: health.Draining, To: health.Stopped}, circuit.Reject, Passing, Refusing},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := testGate(func(s *GateSettings) { s.WhileOpen = test.whileOpen })
			if test.before == Passing {
				passing(g)
			}
			if g.Follow(test.move); g.Mode() != test.want {
				t.Errorf("%s, want %s", g.Mode(), test.want)
			}
		})
	}
}

// waiter waits at the gate in a goroutine of its own.
func waiter(g *Gate, ctx context.Context, t *Ticket, ended func(Outcome)) {
	go func() { ended(g.Wait(ctx, t, nil)) }()
}

func TestHoldLastsAsLongAsItMay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := testGate(func(s *GateSettings) {
			s.Hold.MaxWait = MaxWaitConfig{Start: units.Duration(20 * time.Second), Restart: units.Duration(5 * time.Second)}
		})
		hold := func() time.Duration {
			var ticket Ticket
			begun := time.Now()
			if got := g.Wait(t.Context(), &ticket, nil); got != TimedOut {
				t.Errorf("got %s", got)
			}

			return time.Since(begun)
		}
		if took := hold(); took != 20*time.Second {
			t.Errorf("held for %s before the first ready", took)
		}
		passing(g).Hold()
		if took := hold(); took != 5*time.Second {
			t.Errorf("held for %s after it", took)
		}
		if s := g.Snapshot(); s.Held != 0 || s.LongestHold != 20*time.Second || s.Outcomes[TimedOut] != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestClientThatLeavesFreesItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := testGate(func(s *GateSettings) { s.Hold.MaxRequests = 1 })
		ctx, leave := context.WithCancel(t.Context())
		var first, second, third Ticket
		ended := make(chan Outcome, 2)
		waiter(g, ctx, &first, func(o Outcome) { ended <- o })
		synctest.Wait()
		if got := g.Wait(t.Context(), &second, nil); got != Full {
			t.Errorf("second: %s", got)
		}
		leave()
		if got := <-ended; got != Gone {
			t.Errorf("first: %s", got)
		}
		waiter(g, t.Context(), &third, func(o Outcome) { ended <- o })
		synctest.Wait()
		g.Ramp(1)
		if got := <-ended; got != Proceed {
			t.Errorf("third: %s", got)
		}
	})
}

func TestDrainRefusesWhatIsHeldIfSoWished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := testGate(nil)
		var held, late Ticket
		ended := make(chan Outcome, 1)
		waiter(g, t.Context(), &held, func(o Outcome) { ended <- o })
		synctest.Wait()
		g.Drain(FinishHeld)
		synctest.Wait()
		if g.Snapshot().Held != 1 {
			t.Fatal("finish lets held requests wait on")
		}
		g.Drain(RefuseHeld)
		if got := <-ended; got != Drained {
			t.Errorf("held: %s", got)
		}
		if got := g.Wait(t.Context(), &late, nil); got != Drained {
			t.Errorf("late: %s", got)
		}
		g.Ramp(1)
		if got := g.Wait(t.Context(), &late, nil); got != Proceed {
			t.Errorf("a request that need not be held: %s", got)
		}
	})
}

func TestReturnedRequestStandsAtTheHeadForTheRestOfItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := testGate(func(s *GateSettings) { s.Hold.MaxWait.Start = units.Duration(10 * time.Second) })
		var order []string
		var mu sync.Mutex
		wait := func(name string, ticket *Ticket) {
			waiter(g, t.Context(), ticket, func(o Outcome) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name+" "+o.String())
			})
			synctest.Wait()
		}
		var first, second, other Ticket
		arrived := time.Now()
		time.Sleep(time.Second)
		wait("other", &other)
		first.held = 8 * time.Second
		g.Return(&second, arrived.Add(time.Millisecond))
		g.Return(&first, arrived)
		wait("second", &second)
		wait("first", &first)
		time.Sleep(2*time.Second + time.Millisecond) // the time of the first is up, that of the others is not
		synctest.Wait()
		g.Ramp(1)
		synctest.Wait()
		g.Done(&second)
		synctest.Wait()
		if want := []string{"first timed_out", "second proceed", "other proceed"}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

func TestStuckExchangesDoNotBlockTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := testGate(nil)
		var through atomic.Int64
		tickets := make([]Ticket, 12)
		for i := range tickets {
			waiter(g, t.Context(), &tickets[i], func(Outcome) { through.Add(1) })
			synctest.Wait()
		}
		g.Ramp(4)
		for _, want := range []int64{4, 8, 12} {
			synctest.Wait()
			if through.Load() != want {
				t.Fatalf("%d are through, want %d", through.Load(), want)
			}
			time.Sleep(patience)
		}
	})
}

// TestQueueBehavesLikeItsModel drives the gate and a plain slice through the same random events.
func TestQueueBehavesLikeItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		g := testGate(func(s *GateSettings) {
			s.Hold.MaxRequests = 8
			s.Hold.MaxWait.Start = units.Duration(time.Hour)
			s.Hold.MaxWait.Restart = units.Duration(time.Hour)
		})
		m := &model{gate: g}
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"arrive":  m.arrive,
			"settle":  m.settle,
			"leave":   m.leave,
			"done":    func(rt *rapid.T) { m.answer(rt, func(e *entry) { g.Done(&e.ticket) }, func(*entry) {}) },
			"good":    func(rt *rapid.T) { m.answer(rt, m.good, m.grow) },
			"returns": m.returns,
			"hold":    func(*rapid.T) { g.Hold(); m.mode = Holding },
			"ramp": func(rt *rapid.T) {
				n := rapid.IntRange(1, 3).Draw(rt, "n")
				if m.mode == Holding || m.mode == Refusing {
					m.permits, m.mode = n, Ramping
				}
				g.Ramp(n)
				m.release()
			},
			"refuse": func(*rapid.T) { g.Refuse(BreakerOpen); m.mode = Refusing; m.waiting = nil },
		})
	})
}

type entry struct {
	ticket   Ticket
	complete bool
	returned int // order of return; 0: never
}

type model struct {
	gate     *Gate
	mode     Mode
	permits  int
	waiting  []*entry // in order
	out      []*entry
	free     []*entry // went through a gate that passed
	returns_ int
}

// enter does what Wait does before it waits: the test decides when the waits end.
func (m *model) enter(e *entry) {
	var body *Body
	if !e.complete {
		body = &Body{length: -1}
		body.changed.L = &body.mu
	}
	outcome, decided := m.gate.enter(&e.ticket, body)
	switch {
	case decided && outcome == Proceed && m.mode == Ramping:
		m.out = append(m.out, e)
	case decided && outcome == Proceed:
		m.free = append(m.free, e)
	case !decided:
		at := len(m.waiting)
		if e.returned > 0 {
			at = 0
			for at < len(m.waiting) && m.waiting[at].returned > 0 && m.waiting[at].returned < e.returned {
				at++
			}
		}
		m.waiting = slices.Insert(m.waiting, at, e)
		m.release()
	}
}

func (m *model) arrive(rt *rapid.T) {
	m.enter(&entry{complete: rapid.Bool().Draw(rt, "complete")})
}

func (m *model) settle(rt *rapid.T) {
	if len(m.waiting) == 0 {
		rt.Skip()
	}
	e := rapid.SampledFrom(m.waiting).Draw(rt, "settled")
	e.complete = true
	m.gate.bodySettled(&e.ticket, nil)
	m.release()
}

func (m *model) leave(rt *rapid.T) {
	if len(m.waiting) == 0 {
		rt.Skip()
	}
	e := rapid.SampledFrom(m.waiting).Draw(rt, "leaver")
	if got := m.gate.abandon(&e.ticket); got != Gone {
		rt.Fatalf("leaver got %s", got)
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(o *entry) bool { return o == e })
	m.release()
}

func (m *model) good(e *entry) {
	m.gate.Good(&e.ticket)
	m.gate.Done(&e.ticket)
}

func (m *model) grow(*entry) {
	if m.mode == Ramping {
		m.permits = m.gate.ramp.permits // the pace of growth has tests of its own
	}
}

func (m *model) answer(rt *rapid.T, act, then func(*entry)) {
	if len(m.out) == 0 {
		rt.Skip()
	}
	e := rapid.SampledFrom(m.out).Draw(rt, "answered")
	act(e)
	m.out = slices.DeleteFunc(m.out, func(o *entry) bool { return o == e })
	then(e)
	m.mode = m.gate.Mode()
	m.release()
}

func (m *model) returns(rt *rapid.T) {
	if len(m.out) == 0 {
		rt.Skip()
	}
	e := rapid.SampledFrom(m.out).Draw(rt, "returned")
	m.out = slices.DeleteFunc(m.out, func(o *entry) bool { return o == e })
	m.returns_++
	e.returned = m.returns_
	m.gate.Return(&e.ticket, time.Unix(int64(e.returned), 0))
	m.release()
	m.enter(e)
}

// release gives permits in order, passing over the incomplete while there are complete ones.
func (m *model) release() {
	for m.mode == Ramping && len(m.waiting) > 0 && len(m.out) < m.permits {
		at := max(0, slices.IndexFunc(m.waiting, func(e *entry) bool { return e.complete }))
		m.out = append(m.out, m.waiting[at])
		m.waiting = slices.Delete(m.waiting, at, at+1)
	}
}

func (m *model) check(rt *rapid.T) {
	s := m.gate.Snapshot()
	if s.Held != len(m.waiting) || s.Mode != m.mode || s.Permitted != len(m.out) {
		rt.Fatalf("gate: %s, %d held, %d out; model: %s, %d, %d", s.Mode, s.Held, s.Permitted, m.mode, len(m.waiting), len(m.out))
	}
	if s.Mode == Passing && s.Held > 0 {
		rt.Fatalf("%d are held at a gate that passes", s.Held)
	}
	for _, e := range m.waiting {
		if e.ticket.place != inLine {
			rt.Fatal("somebody was let through before his turn, or refused")
		}
	}
	for _, e := range m.out {
		if e.ticket.place != permitted {
			rt.Fatal("somebody whose turn it is has no permit")
		}
		select {
		case <-e.ticket.wake:
		default:
		}
	}
}

func TestGateUnderRace(t *testing.T) {
	t.Parallel()
	g := testGate(func(s *GateSettings) { s.Hold.MaxRequests = 64 })
	var clients, movers sync.WaitGroup
	stop := make(chan struct{})
	movers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			switch i % 4 {
			case 0:
				g.Ramp(2)
			case 1:
				g.Snapshot()
			case 2:
				g.Refuse(BreakerOpen)
			case 3:
				g.Hold()
			}
		}
	})
	for i := range 32 {
		clients.Go(func() {
			for j := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*j%5+1)*time.Millisecond)
				var ticket Ticket
				if g.Wait(ctx, &ticket, nil) == Proceed {
					switch (i + j) % 3 {
					case 0:
						g.Good(&ticket)
					case 1:
						g.Busy(&ticket)
					case 2:
						g.Return(&ticket, time.Now())
					}
					g.Done(&ticket)
				}
				cancel()
			}
		})
	}
	clients.Wait()
	close(stop)
	movers.Wait()
	if s := g.Snapshot(); s.Held != 0 || s.Permitted != 0 {
		t.Errorf("left behind: %+v", s)
	}
}
