package warmup

import (
	"context"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// stopwatch counts the time in which at least one of several things was going on. Runner.mu guards it.
type stopwatch struct {
	going int
	since time.Time
	spent time.Duration
}

func (s *stopwatch) start() {
	if s.going == 0 {
		s.since = time.Now()
	}
	s.going++
}

func (s *stopwatch) stop() {
	s.going--
	if s.going == 0 {
		s.spent += time.Since(s.since)
	}
}

// read returns the time so far.
func (s *stopwatch) read() time.Duration {
	if s.going > 0 {
		return s.spent + time.Since(s.since)
	}

	return s.spent
}

// compute sends a synthetic request, and counts the time in which the backend computes for us: in all, and for the run, which is nil for a request beside the plan.
func (r *Runner) compute(ctx context.Context, c *run, request backend.Request) (backend.Answer, error) {
	both := []*stopwatch{&r.computing}
	if c != nil {
		both = append(both, &c.computing)
	}
	r.mu.Lock()
	for _, watch := range both {
		watch.start()
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, watch := range both {
			watch.stop()
		}
	}()

	return r.settings.Client.Do(ctx, request)
}
