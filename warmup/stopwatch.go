package warmup

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// afford is a *spentError once the warm-up, of which the run may be a later try, has had all the time it may have.
func (c *run) afford() error {
	most := c.runner.settings.Config.GPUTime.Std()
	if most <= 0 {
		return nil
	}
	c.runner.mu.Lock()
	defer c.runner.mu.Unlock()
	if c.earlier+c.computing.read() < most {
		return nil
	}

	return &spentError{most}
}

// account notes what the tries of a warm-up have spent, if there will be another try: none may begin to spend anew. A run that was given up was no try: what comes after it
// is for another backend, or was asked for. The caller holds no lock.
func (c *run) account(ctx context.Context, failed error) {
	r := c.runner
	r.mu.Lock()
	defer r.mu.Unlock()
	unready := failed != nil || c.keptUnready()
	serves := c.only == "" && r.settings.Config.OnFailure == Serve // a model by itself is tried again whatever the policy is
	if unready && !serves && !errors.Is(context.Cause(ctx), context.Canceled) {
		r.spent[c.only] = c.earlier + c.computing.read()
	} else {
		delete(r.spent, c.only)
	}
}

// keptUnready says whether the policy keeps the pod, or the model of the run, unready, although nothing failed. The caller holds Runner.mu.
func (c *run) keptUnready() bool {
	settings := &c.runner.settings

	return settings.Config.NotConverged == StayUnready && slices.ContainsFunc(c.models, func(m ModelReport) bool { return m.Unsettled() && settings.Required(m.Name) })
}

// spentError says that the time allowed for synthetic requests is spent. That is what was asked for, and no failure.
type spentError struct{ most time.Duration }

func (e *spentError) Error() string { return fmt.Sprintf("warmup.gpu_time, %v, is spent", e.most) }

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
