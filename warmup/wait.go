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
	// probeShare is the inverse of the share of a core that waiting for a listener may cost: 0.7 %.
	probeShare = 143
	// probeLeast and probeMost bound the pause between two looks where a look is cheap: then waking up is what costs, 30 to 80 µs of processor
	// time in a virtual machine. However dear it is, a listener is noticed soon.
	probeLeast = 5 * time.Millisecond
	probeMost  = 7 * time.Millisecond
	// probeLesson is how many looks it takes to learn what one costs.
	probeLesson = 16
	// dialMost bounds it where each look is a real dial: names, and addresses of other hosts.
	dialMost = 250 * time.Millisecond
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
	defer func() {
		if len(c.modelNames()) > 0 {
			c.foundOnce.Do(func() { close(c.found) })
		}
	}()
	var models []string
	err := c.poll(ctx, func(ctx context.Context) error {
		dialect, err := c.runner.speak(ctx)
		if err != nil {
			return err
		}
		if models = []string{c.only}; c.only == "" {
			models, err = c.runner.models(ctx, dialect)
		}

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
	c.emit(Event{Kind: ModelsFound, Models: slices.Clone(models)})

	return models, nil
}

// Answers waits until something accepts connections at the backend's address.
func (r *Runner) Answers(ctx context.Context) error {
	return (&run{runner: r}).listening(ctx)
}

// waitFor waits until the backend has loaded the model, by its own word or by an inference.
func (c *run) waitFor(ctx context.Context, n *node, model string) error {
	c.runner.mu.Lock()
	listed := c.listed[model]
	delete(c.listed, model)
	_, sleeps := c.runner.dialect.(backend.Sleeper)
	c.runner.mu.Unlock()
	if listed && !sleeps && n.wait.Order == OrderStatus {
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

		return c.runner.once(ctx, c, dialect, described, step{})
	})
}

// poll asks until the answer is good, refuses credentials, or can never come; in between it looks for a listener, fast, and lets a server that
// answers load in peace.
func (c *run) poll(ctx context.Context, ask func(context.Context) error) error {
	pause := backoff{next: loadingFirst, limit: loadingMost}
	for {
		last := c.listening(ctx)
		if last == nil {
			last = ask(ctx)
			c.sawAnswer(last)
			c.await(ctx, last)
		}
		if last == nil || hopeless(last) {
			return last
		}
		if ctx.Err() == nil && pause.wait(ctx) == nil {
			continue
		}
		if cause := context.Cause(ctx); !errors.Is(last, cause) {
			return fmt.Errorf("%w; last answer: %w", cause, last)
		}

		return last
	}
}

// await tells, once for each change, what is being waited for.
func (c *run) await(ctx context.Context, last error) {
	text := ""
	if last != nil {
		text = last.Error()
	}
	c.runner.mu.Lock()
	changed := text != c.awaited
	c.awaited = text
	c.runner.mu.Unlock()
	if !changed || ctx.Err() != nil {
		return
	}
	if last != nil {
		c.runner.logger.InfoContext(ctx, "waiting for the backend", "because", text)
	}
	c.emit(Event{Kind: Waiting, Error: last})
}

// sawAnswer tells the first time in a run that the backend answered anything.
func (c *run) sawAnswer(err error) {
	if err != nil {
		if failed, ok := errors.AsType[*backend.Error](err); !ok || failed.Status == 0 {
			return
		}
	}
	c.up.Do(func() {
		if c.runner.settings.Config.Record.Value != "" {
			c.naming.Go(func() { c.process() }) // it may take a millisecond, and the first inference should not wait for it
		}
		c.emit(Event{Kind: BackendUp})
	})
}

// listening waits until something accepts connections at the backend's address. It looks as often as a look's cost allows, which it learns from
// the looks so far.
func (c *run) listening(ctx context.Context) error {
	probe := c.runner.settings.Client.NewProbe(ctx)
	defer probe.Close()
	pace, most := probeLeast, dialMost
	if probe.Cheap() {
		most = probeMost
	}
	spent := probe.Spent()
	for look := 1; ; look++ {
		err := probe.Listening(ctx)
		if err == nil {
			return nil
		}
		if look == 1 {
			c.await(ctx, err)
		}
		if look%probeLesson == 0 {
			now := probe.Spent()
			pace = min(max(probeLeast, probeShare*(now-spent)/probeLesson), most)
			spent = now
		}
		if cause := probe.Wait(ctx, pace); cause != nil {
			return fmt.Errorf("%w; last answer: %w", cause, err)
		}
	}
}
