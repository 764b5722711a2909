package warmup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"
)

// alone holds what the kinds of step do that need no backend. Only they may go before it, and a kind that is listed here may.
//
//exhaustive:ignore
var alone = map[Kind]func(*Runner, context.Context, step) error{KindPrefetch: (*Runner).prefetch}

// preparation is a step that goes before the backend, which is run once for all runs of the plan, and once more by each run after one in which it had failed.
type preparation struct {
	// done is closed once the step has ended or hit its limit; err is final then.
	done chan struct{}
	err  error
	took time.Duration
	// taken is true once a run has had the result. Guarded by Runner.mu.
	taken bool
}

// preparations are those that the plan asks for. They are there from the start, so that a run that begins sooner than Prepare waits for it, and does nothing twice.
func (p Plan) preparations() map[string]*preparation {
	before := map[string]*preparation{}
	for _, s := range p.steps {
		if s.before {
			before[s.name] = &preparation{done: make(chan struct{})}
		}
	}

	return before
}

// Prepare runs the steps marked before_backend, each once, and returns when each has ended or hit its limit, even one that does not heed it. It is called once, and may go
// on beside Run, which waits for it.
func (r *Runner) Prepare(ctx context.Context) {
	r.mu.Lock()
	before := maps.Clone(r.before) // a run puts others in their place, and waits for these
	r.mu.Unlock()
	var group sync.WaitGroup
	for _, s := range r.plan.steps {
		if s.before {
			group.Go(func() { r.prepareOne(ctx, s, before) })
		}
	}
	group.Wait()
	r.prepared.Store(true)
}

// Prepared says whether no step that goes before the backend is to be waited for any more.
func (r *Runner) Prepared() bool { return r.prepared.Load() || !r.plan.before() }

// prepareOne runs one step within its limit, all tries together.
func (r *Runner) prepareOne(ctx context.Context, s step, before map[string]*preparation) {
	made, began := before[s.name], time.Now()
	defer close(made.done)
	for _, need := range s.needs {
		<-before[need].done
		if err := before[need].err; err != nil {
			made.err = skipped(need, err)

			return
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, &expiredError{fmt.Sprintf("timed out after %v", s.timeout)})
	defer cancel()
	ended := make(chan error, 1)
	do := alone[s.kind]
	go func() { ended <- s.tryAlone(ctx, func(ctx context.Context) error { return do(r, ctx, s) }) }() // a read from a volume that hangs heeds no context
	select {
	case made.err = <-ended:
	case <-ctx.Done():
		made.err = context.Cause(ctx)
	}
	made.took = time.Since(began)
	r.logger.InfoContext(ctx, "step before the backend ended", "step", s.name, "kind", s.kind, "took", made.took, "error", made.err)
}

// tryAlone does what a step does that needs no backend, until it succeeds or has no tries left.
func (s step) tryAlone(ctx context.Context, do func(context.Context) error) error {
	pause := backoff{next: 250 * time.Millisecond, limit: 10 * time.Second}
	for try := 0; ; try++ {
		err := do(ctx)
		if err == nil || try >= s.retries || ctx.Err() != nil {
			return err
		}
		if stopped := pause.wait(ctx); stopped != nil {
			return fmt.Errorf("%w; before that: %w", stopped, err)
		}
	}
}

// aside runs a step that needs no backend within a run, or takes over what it came to before.
func (c *run) aside(ctx context.Context, n *node) error {
	if err := c.needed(n, ""); err != nil {
		return err
	}
	c.begin(n)
	c.runner.mu.Lock()
	made := c.runner.before[n.name]
	again := made == nil || made.taken
	c.runner.mu.Unlock()
	if !again {
		select {
		case <-made.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		c.runner.mu.Lock()
		made.taken = made.err != nil
		c.runner.mu.Unlock()

		return made.err
	}
	err := c.try(ctx, n, func(ctx context.Context) error { return alone[n.kind](c.runner, ctx, n.step) })
	if made != nil && err == nil {
		c.runner.mu.Lock()
		c.runner.before[n.name] = &preparation{done: made.done, took: made.took} // closed long ago
		c.runner.mu.Unlock()
	}

	return err
}

// before says whether any step goes before the backend.
func (p Plan) before() bool {
	for _, s := range p.steps {
		if s.before {
			return true
		}
	}

	return false
}

// checkBefore refuses steps that go before the backend and need one that does not.
func (p Plan) checkBefore() error {
	before := map[string]bool{}
	var problems []error
	for _, s := range p.steps {
		before[s.name] = s.before
		for _, need := range s.needs {
			if s.before && !before[need] {
				problems = append(problems, fmt.Errorf("check steps: step %q is before_backend and needs %q, which is not", s.name, need))
			}
		}
	}

	return errors.Join(problems...)
}
