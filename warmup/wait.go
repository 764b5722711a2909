package warmup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

const (
	// probeShare is the inverse of the share of a core that the attempts to find a listener may cost, by the cost of the last ones.
	probeShare = 200
	// probeLeast is how late a listener may be noticed. Not the attempt but waking up for it is what costs: 40 to 90 µs in a virtual machine, which
	// is why this is no shorter. The odd 40 µs let the runtime wake up once and not twice: its poller counts whole milliseconds, and the kernel
	// adds 50 µs of slack to each sleep.
	probeLeast = 7*time.Millisecond + 40*time.Microsecond
	// probeMost bounds the pause when attempts are dear: names, and addresses of other hosts.
	probeMost = 250 * time.Millisecond
	// loadingFirst and loadingMost bound the pauses between questions to a server that answers and is not ready.
	loadingFirst = 4 * time.Millisecond
	loadingMost  = 250 * time.Millisecond
)

// attach waits until the backend listens, knows its own type and, where they are not configured, its models.
func (c *run) attach(ctx context.Context) ([]string, error) {
	select {
	case c.attached <- struct{}{}:
		defer func() { <-c.attached }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if models := c.modelNames(); len(models) > 0 {
		return models, nil
	}
	var models []string
	err := c.poll(ctx, func(ctx context.Context) error {
		dialect, err := c.runner.speak(ctx)
		if err != nil {
			return err
		}
		models, err = c.runner.models(ctx, dialect)

		return err
	})
	if err != nil {
		return nil, err
	}
	c.runner.mu.Lock()
	for _, model := range models {
		c.models = append(c.models, ModelReport{Name: model})
	}
	for _, model := range c.runner.found {
		c.listed[model] = true
	}
	c.runner.mu.Unlock()
	c.runner.emit(Event{Kind: ModelsFound, Models: slices.Clone(models)})

	return models, nil
}

// waitFor waits until the backend has loaded the model, by its own word or by an inference.
func (c *run) waitFor(ctx context.Context, n *node, model string) error {
	c.runner.mu.Lock()
	listed := c.listed[model]
	delete(c.listed, model)
	c.runner.mu.Unlock()
	if listed && n.wait.Order == OrderStatus {
		return nil
	}

	return c.poll(ctx, func(ctx context.Context) error {
		dialect, err := c.runner.speak(ctx)
		if err != nil {
			return err
		}
		if n.wait.Order == OrderStatus {
			return dialect.Ready(ctx, model)
		}
		described, err := c.runner.describe(ctx, dialect, model)
		if err != nil {
			return err
		}
		if described.NoRequest != "" {
			return dialect.Ready(ctx, model)
		}

		return c.runner.once(ctx, dialect, described, backend.Shape{Batch: 1}, backend.Expect{})
	})
}

// poll asks until the answer is good, refuses credentials, or can never come; in between it looks for a listener, fast, and lets a server that
// answers load in peace.
func (c *run) poll(ctx context.Context, ask func(context.Context) error) error {
	pause := back{next: loadingFirst, limit: loadingMost}
	for {
		last := c.listening(ctx)
		if last == nil {
			last = ask(ctx)
			c.sawAnswer(last)
		}
		if last == nil || hopeless(last) {
			return last
		}
		if ctx.Err() == nil && pause.off(ctx) == nil {
			continue
		}
		if cause := context.Cause(ctx); !errors.Is(last, cause) {
			return fmt.Errorf("%w; last answer: %w", cause, last)
		}

		return last
	}
}

// sawAnswer tells the first time in a run that the backend answered anything.
func (c *run) sawAnswer(err error) {
	if err != nil {
		if failed, ok := errors.AsType[*backend.Error](err); !ok || failed.Status == 0 {
			return
		}
	}
	c.up.Do(func() { c.runner.emit(Event{Kind: BackendUp}) })
}

// listening waits until something accepts connections at the backend's address.
func (c *run) listening(ctx context.Context) error {
	probe := c.runner.settings.Client.NewProbe(ctx)
	defer probe.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	// The cheapest of the last attempts is what an attempt costs; the others were interrupted.
	var costs [4]time.Duration
	for attempt := 0; ; attempt++ {
		start := time.Now()
		err := probe.Listening(ctx)
		if err == nil {
			return nil
		}
		costs[attempt%len(costs)] = time.Since(start)
		cost := slices.Min(costs[:min(attempt+1, len(costs))])
		timer.Reset(min(max(probeLeast, probeShare*cost), probeMost))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), err)
		}
	}
}
