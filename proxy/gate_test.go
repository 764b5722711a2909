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

// limited is a change of settings.
func limited(to int) func(*GateSettings) {
	return func(s *GateSettings) { s.Concurrency.Limit = units.Of(to) }
}

func adaptive(s *GateSettings) { s.Concurrency.Limit = units.Auto[int]{} }

func TestPassingCostsNothing(t *testing.T) {
	for name, change := range map[string]func(*GateSettings){"no limit": nil, "limit": limited(4), "adaptive limit": adaptive} {
		t.Run(name, func(t *testing.T) {
			g := passing(testGate(change))
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
		})
	}
}

func BenchmarkPassing(b *testing.B) {
	benchmarks := []struct {
		name     string
		change   func(*GateSettings)
		parallel bool
	}{
		{"without limit", nil, false},
		{"without limit, all cores", nil, true},
		{"limit not reached", limited(1 << 20), false},
		{"limit not reached, all cores", limited(1 << 20), true},
		{"adaptive limit not reached", adaptive, false},
	}
	for _, benchmark := range benchmarks {
		b.Run(benchmark.name, func(b *testing.B) {
			g := passing(testGate(benchmark.change))
			ctx := b.Context()
			b.ReportAllocs()
			pass := func(ticket *Ticket) {
				if g.Wait(ctx, ticket, nil) != Proceed {
					b.Fatal("refused")
				}
				g.Good(ticket)
				g.Done(ticket)
			}
			if !benchmark.parallel {
				var ticket Ticket
				for b.Loop() {
					pass(&ticket)
				}

				return
			}
			b.RunParallel(func(pb *testing.PB) {
				var ticket Ticket
				for pb.Next() {
					pass(&ticket)
				}
			})
		})
	}
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
func waiter(ctx context.Context, g *Gate, t *Ticket, ended func(Outcome)) {
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
		waiter(ctx, g, &first, func(o Outcome) { ended <- o })
		synctest.Wait()
		if got := g.Wait(t.Context(), &second, nil); got != Full {
			t.Errorf("second: %s", got)
		}
		leave()
		if got := <-ended; got != Gone {
			t.Errorf("first: %s", got)
		}
		waiter(t.Context(), g, &third, func(o Outcome) { ended <- o })
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
		waiter(t.Context(), g, &held, func(o Outcome) { ended <- o })
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
			waiter(t.Context(), g, ticket, func(o Outcome) {
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
			waiter(t.Context(), g, &tickets[i], func(Outcome) { through.Add(1) })
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
