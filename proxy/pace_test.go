package proxy

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// crowd is a model server of so many workers with a line of its own, and clients who ask again as soon as they have an answer. It lives in a synctest bubble.
type crowd struct {
	gate     *Gate
	work     func() time.Duration
	room     int // requests beyond are refused as busy; 0: all are taken
	workers  chan struct{}
	inside   atomic.Int64
	peak     atomic.Int64
	served   atomic.Int64
	refused  atomic.Int64
	held     atomic.Int64 // that were refused by the gate
	stopping atomic.Bool
	clients  sync.WaitGroup
}

func newCrowd(g *Gate, workers, clients int, work func() time.Duration) *crowd {
	c := &crowd{gate: g, work: work, workers: make(chan struct{}, workers)}
	for range clients {
		c.clients.Go(c.client)
	}

	return c
}

func (c *crowd) client() {
	for !c.stopping.Load() {
		var t Ticket
		if c.gate.Wait(context.Background(), &t, nil) != Proceed {
			c.held.Add(1)
			time.Sleep(time.Second)

			continue
		}
		inside := c.inside.Add(1)
		for old := c.peak.Load(); inside > old; old = c.peak.Load() {
			c.peak.CompareAndSwap(old, inside)
		}
		if c.room > 0 && int(inside) > c.room {
			time.Sleep(time.Millisecond)
			c.refused.Add(1)
			c.gate.Busy(&t)
		} else {
			c.workers <- struct{}{}
			time.Sleep(c.work())
			<-c.workers
			c.served.Add(1)
			c.gate.Good(&t)
		}
		c.inside.Add(-1)
		c.gate.Done(&t)
	}
}

// measure returns what was served, and how many requests were inside at most, in a span of time.
func (c *crowd) measure(span time.Duration) (perSecond float64, peak int64) {
	c.served.Store(0)
	c.refused.Store(0)
	c.peak.Store(c.inside.Load())
	time.Sleep(span)

	return float64(c.served.Load()) / span.Seconds(), c.peak.Load()
}

func (c *crowd) stop() {
	c.stopping.Store(true)
	c.clients.Wait()
}

func steady() time.Duration { return 50 * time.Millisecond }

func TestAdaptiveLimitFindsWhatTheBackendCanDo(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	mixed := func() time.Duration { // one in ten is ten times as much work, and one in a hundred is an answer from a cache
		mu.Lock()
		defer mu.Unlock()
		switch random.IntN(100) {
		case 0:
			return 100 * time.Microsecond
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
			return 200 * time.Millisecond
		default:
			return 20 * time.Millisecond
		}
	}
	tests := []struct {
		name     string
		limit    units.Auto[int]
		room     int
		work     func() time.Duration
		capacity float64 // of 8 workers, in a second
		least    float64 // share of the capacity
		peak     int64
		refused  float64 // share, at most
	}{
		{"a line inside", units.Auto[int]{}, 0, steady, 160, 0.95, 32, 0},
		{"refusals", units.Auto[int]{}, 10, steady, 160, 0.7, 11, 0.05},
		{"mixed work", units.Auto[int]{}, 0, mixed, 8 / 0.0378, 0.6, 60, 0},
		{"fixed, for comparison", units.Of(8), 0, steady, 160, 0.99, 8, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := passing(testGate(func(s *GateSettings) { s.Concurrency.Limit = test.limit }))
				c := newCrowd(g, 8, 0, test.work)
				c.room = test.room
				for range 100 {
					c.clients.Go(c.client)
				}
				time.Sleep(10 * time.Second)
				rate, peak := c.measure(2 * time.Minute)
				refused := float64(c.refused.Load()) / float64(c.served.Load()+c.refused.Load())
				t.Logf("%.0f a second of %.0f, at most %d inside, %.1f %% refused, %d gave up", rate, test.capacity, peak, 100*refused, c.held.Load())
				if rate < test.least*test.capacity || peak > test.peak || refused > test.refused || g.Mode() != Passing {
					t.Errorf("%.0f a second of %.0f, at most %d inside, %.3f refused, %s", rate, test.capacity, peak, refused, g.Mode())
				}
				c.stop()
			})
		})
	}
}

// TestWithoutALimitTheBackendsLineGrows is the negative control: everybody is inside at once.
func TestWithoutALimitTheBackendsLineGrows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(passing(testGate(nil)), 8, 100, steady)
		if _, peak := c.measure(10 * time.Second); peak != 100 {
			t.Errorf("at most %d inside", peak)
		}
		c.stop()
	})
}

// TestAdaptiveLimitFollowsTheWork makes the work slower, and the backend smaller and larger again. What it can do is to be used in each phase.
func TestAdaptiveLimitFollowsTheWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var work atomic.Int64
		work.Store(int64(50 * time.Millisecond))
		g := passing(testGate(adaptive))
		c := newCrowd(g, 8, 100, func() time.Duration { return time.Duration(work.Load()) })
		phase := func(name string, each time.Duration, workers int) {
			t.Helper()
			work.Store(int64(each))
			for range 8 - workers {
				c.workers <- struct{}{}
			}
			time.Sleep(30 * time.Second)
			rate, peak := c.measure(time.Minute)
			capacity := float64(workers) / each.Seconds()
			t.Logf("%s: %.0f a second of %.0f, at most %d inside", name, rate, capacity, peak)
			if rate < 0.9*capacity || peak > 50 {
				t.Errorf("%s: %.0f a second of %.0f, at most %d inside", name, rate, capacity, peak)
			}
			for range 8 - workers {
				<-c.workers
			}
		}
		phase("as it was", 50*time.Millisecond, 8)
		phase("slower work", 400*time.Millisecond, 8)
		phase("faster work", 20*time.Millisecond, 8)
		phase("fewer workers", 20*time.Millisecond, 2)
		phase("all workers", 20*time.Millisecond, 8)
		c.stop()
	})
}

// TestAdaptiveLimitNeverStarves has a backend that refuses for a while, and then one that keeps every exchange open.
func TestAdaptiveLimitNeverStarves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := passing(testGate(adaptive))
		for range 20 {
			var ticket Ticket
			if got := g.Wait(t.Context(), &ticket, nil); got != Proceed {
				t.Fatalf("%s with nobody under way", got)
			}
			g.Busy(&ticket)
			g.Done(&ticket)
		}
		if s := g.Snapshot(); s.Permits != 1 {
			t.Errorf("%d permits", s.Permits)
		}
		time.Sleep(quiet)
		l := newLine(t, g)
		l.come("a", "b", "c", "d", "e", "f", "g", "h", "i") // four find the limit at rest, and keep their permits
		l.want("a", "b", "c", "d")
		time.Sleep(patience)
		synctest.Wait()
		l.want("a", "b", "c", "d", "e", "f", "g", "h")
		time.Sleep(patience)
		synctest.Wait()
		l.want("a", "b", "c", "d", "e", "f", "g", "h", "i")
	})
}
