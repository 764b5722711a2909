package circuit

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestAZeroConfigIsUsable(t *testing.T) {
	t.Parallel()
	b := New(Settings{})
	for range 20 {
		e, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		e.Start(Bad)
		e.End(false)
	}
	if got := b.Snapshot().State; got != Open {
		t.Errorf("state is %s, expected open by the defaults", got)
	}
}

// Real time and many goroutines, for the race detector: every method beside every other.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.MinRequests = 5
	c.Window = units.Duration(50 * time.Millisecond)
	c.StalledAfter = units.Duration(5 * time.Millisecond)
	c.OpenFor = units.Duration(time.Millisecond)
	c.HalfOpen.Timeout = units.Duration(5 * time.Millisecond)
	var mu sync.Mutex
	state := Closed
	broken := 0
	b := New(Settings{
		Config: c,
		Synthetic: func(context.Context) error {
			if rand.IntN(2) == 0 {
				return errSick
			}

			return nil
		},
		Moved: func(from, to State, _ string) {
			mu.Lock()
			defer mu.Unlock()
			if from != state {
				broken++
			}
			state = to
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	var users sync.WaitGroup
	for range 16 {
		users.Go(func() {
			var late Exchange
			for range 3000 {
				e, err := b.Allow()
				if err != nil {
					<-time.After(50 * time.Microsecond)

					continue
				}
				e.Start(Verdict(rand.IntN(3)))
				e.Progress()
				e.End(rand.IntN(4) == 0)
				late.Start(Bad)
				late.End(true)
				late = e
				if rand.IntN(200) == 0 {
					b.Snapshot()
				}
			}
		})
	}
	users.Go(func() {
		for range 20 {
			b.Force(StateValues()[rand.IntN(3)])
			<-time.After(time.Millisecond)
			b.Reset()
			<-time.After(time.Millisecond)
		}
	})
	users.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := b.Snapshot().InFlight; got != 0 {
		t.Errorf("%d in flight when all have ended", got)
	}
	if broken != 0 {
		t.Errorf("%d moves did not begin where the last one ended", broken)
	}
}

func TestTheClosedPathAllocatesNothing(t *testing.T) {
	b := New(Settings{Config: DefaultConfig()})
	if got := testing.AllocsPerRun(1000, func() { pass(b) }); got != 0 {
		t.Errorf("%v allocations an exchange, expected none", got)
	}
}

// The bound is for one exchange alone on a core; what it was measured to cost stands at pulse.
func TestTheClosedPathIsCheap(t *testing.T) {
	if raceDetector || testing.Short() {
		t.Skip("timings mean something only without the race detector")
	}
	const limit = 150 * time.Nanosecond
	best := time.Hour
	b := New(Settings{Config: DefaultConfig()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	for b.pulse.last() == 0 { // until it runs
		<-time.After(time.Millisecond)
	}
	// The best of many short rounds: the machine is shared, and what others take from us is not the cost of this.
	for range 200 {
		const n = 5000
		began := time.Now()
		for range n {
			pass(b)
		}
		best = min(best, time.Since(began)/n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("%s an exchange", best)
	if best > limit {
		t.Errorf("an exchange costs %s, expected under %s", best, limit)
	}
}

func pass(b *Breaker) {
	e, err := b.Allow()
	if err == nil {
		e.Start(Good)
		e.End(false)
	}
}

func running(b *testing.B) *Breaker {
	b.Helper()
	breaker := New(Settings{Config: DefaultConfig()})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- breaker.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	for breaker.pulse.last() == 0 {
		<-time.After(time.Millisecond)
	}
	b.ReportAllocs()

	return breaker
}

func BenchmarkExchange(b *testing.B) {
	breaker := running(b)
	for b.Loop() {
		pass(breaker)
	}
}

func BenchmarkExchangeInParallel(b *testing.B) {
	breaker := running(b)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			pass(breaker)
		}
	})
}

func BenchmarkExchangeBesideTenThousand(b *testing.B) {
	breaker := running(b)
	for range 10_000 {
		_, _ = breaker.Allow()
	}
	for b.Loop() {
		pass(breaker)
	}
}

func BenchmarkProgress(b *testing.B) {
	breaker := running(b)
	e, _ := breaker.Allow()
	for b.Loop() {
		e.Progress()
	}
}

func BenchmarkRefusal(b *testing.B) {
	breaker := running(b)
	breaker.Force(Open)
	for b.Loop() {
		_, _ = breaker.Allow()
	}
}

func BenchmarkSnapshot(b *testing.B) {
	breaker := running(b)
	for b.Loop() {
		breaker.Snapshot()
	}
}
