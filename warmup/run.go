package warmup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// run is one run of the plan. A step is a node; within it, each model has a lane of its own, so that a model that fails or hangs keeps no other
// from being warm: a lane waits for the lanes of the same model in the steps that it needs.
type run struct {
	runner *Runner
	number int
	// only is the model of a partial run, which tells nobody but its caller; empty: all models.
	only   string
	nodes  []*node
	byName map[string]*node
	// attached holds the token to look for the backend; whoever comes second finds what the first one found.
	attached chan struct{}
	up       sync.Once
	// found is closed once the models are known.
	found     chan struct{}
	foundOnce sync.Once

	limits     limits
	turn       turn
	background background
	// process is who listened when the backend first answered; it is asked once.
	process func() string
	naming  sync.WaitGroup
	// believed is the record of an earlier Pilotlight, nil if there is none to believe; it is looked for once.
	believed func() *record
	// references are what answers are compared with.
	references *references

	// Guarded by Runner.mu.
	// listed are the models that the backend itself has just named as loaded, so that it need not be asked at once whether they are.
	listed         map[string]bool
	started, ended time.Time
	err            error
	awaited        string // what is being waited for, in words
	models         []ModelReport
	shapes         []*shape
	requests, busy int
	computing      stopwatch
	// earlier is what earlier tries of the same warm-up have spent. It does not change.
	earlier time.Duration
	// waitsFor says why requests wait for a calm machine.
	waitsFor string
}

func newRun(ctx context.Context, r *Runner, only string) *run {
	current := &run{runner: r, only: only, found: make(chan struct{}), byName: map[string]*node{}, attached: make(chan struct{}, 1), listed: map[string]bool{}, started: time.Now(), references: newReferences(r.settings.Reference)}
	current.turn.one = make(chan struct{}, 1)
	current.process = sync.OnceValue(r.settings.Process)
	current.believed = sync.OnceValue(func() *record { return current.believe(ctx) })
	for _, s := range r.plan.steps {
		n := &node{step: s, shared: make(chan struct{})}
		current.nodes = append(current.nodes, n)
		current.byName[s.name] = n
	}
	if only != "" {
		warms := current.subgraph(func(n *node) bool { return n.infers(only) })
		current.nodes = slices.DeleteFunc(current.nodes, func(n *node) bool { return !warms[n] })
	} else if r.settings.Background {
		current.leave()
	}

	return current
}

// leave marks the steps that are left for the background: those that are optional, send inferences, and are needed by none that is not left.
func (c *run) leave() {
	needed := map[string]bool{}
	for _, n := range slices.Backward(c.nodes) {
		n.deferred = n.kind == KindInfer && n.optional && !needed[n.name]
		for _, need := range n.needs {
			needed[need] = needed[need] || !n.deferred
		}
	}
}

// subgraph returns the steps that are chosen and all that they need.
func (c *run) subgraph(chosen func(*node) bool) map[*node]bool {
	within := map[*node]bool{}
	for _, n := range slices.Backward(c.nodes) {
		if !within[n] && !chosen(n) {
			continue
		}
		within[n] = true
		for _, need := range n.needs {
			within[c.byName[need]] = true
		}
	}

	return within
}

// concerns returns the steps that a model waits for: those that send it inferences, those that nothing needs and that are for no model in particular, and all
// that these need. What is there for another model's sake is not among them.
func (c *run) concerns(model string) map[*node]bool {
	needed := map[string]bool{}
	for _, n := range c.nodes {
		for _, need := range n.needs {
			needed[need] = true
		}
	}

	return c.subgraph(func(n *node) bool { return n.infers(model) || (n.kind != KindInfer && !needed[n.name]) })
}

// known waits until the models are known, or every step has found that they will not be.
func (c *run) known() {
	through := make(chan struct{})
	go func() {
		defer close(through)
		for _, n := range c.nodes {
			<-n.shared
		}
	}()
	select {
	case <-c.found:
	case <-through:
	}
}

// do runs every node in a goroutine of its own and waits for all of them.
func (c *run) do(ctx context.Context) error {
	var group sync.WaitGroup
	for _, n := range c.nodes {
		group.Go(func() { c.node(ctx, n) })
	}
	c.known()
	var failures []error
	var mu sync.Mutex
	for _, model := range c.modelNames() {
		group.Go(func() {
			report, err := c.outcome(model)
			c.settle(report)
			c.emit(Event{Kind: ModelEnded, Model: report})
			if err != nil && (c.only != "" || c.runner.settings.Required(model)) {
				mu.Lock()
				failures = append(failures, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	c.naming.Wait()
	for _, n := range c.nodes {
		if _, skipped := errors.AsType[*skippedError](n.sharedErr); n.sharedErr != nil && !skipped && !n.optional {
			failures = append(failures, fmt.Errorf("step %s: %w", n.name, n.sharedErr))
		}
	}
	err := errors.Join(failures...)
	c.runner.mu.Lock()
	c.ended, c.err = time.Now(), err
	c.runner.mu.Unlock()

	return err
}

// emit tells of progress.
func (c *run) emit(event Event) {
	if c.only == "" {
		c.runner.emit(event)
	}
}

// settle notes what the run came to for a model.
func (c *run) settle(report ModelReport) {
	c.runner.mu.Lock()
	defer c.runner.mu.Unlock()
	for i := range c.models {
		if c.models[i].Name == report.Name {
			c.models[i] = report
		}
	}
}

func (c *run) modelNames() []string {
	c.runner.mu.Lock()
	defer c.runner.mu.Unlock()
	names := make([]string, 0, len(c.models))
	for _, model := range c.models {
		names = append(names, model.Name)
	}

	return names
}

// node runs one step: what it does for no model in particular, then a lane for each model that it is for.
func (c *run) node(ctx context.Context, n *node) {
	var models []string
	for _, need := range n.needs {
		needed := c.byName[need]
		<-needed.shared
		if needed.sharedErr != nil && n.sharedErr == nil {
			n.sharedErr = skipped(need, needed.sharedErr)
		}
	}
	switch {
	case n.sharedErr != nil:
	case alone[n.kind] != nil:
		n.sharedErr = c.aside(ctx, n)
	case n.kind == KindCall || n.kind == KindReplay:
		n.sharedErr = c.whole(ctx, n)
	default:
		if n.kind == KindWait {
			c.begin(n)
		}
		n.sharedErr = c.try(ctx, n, func(ctx context.Context) (err error) {
			models, err = c.attach(ctx)

			return err
		})
	}
	if n.kind == KindInfer && n.infer.Model != "" {
		models = slices.DeleteFunc(slices.Clone(models), func(name string) bool { return name != n.infer.Model })
	}
	n.lanes = make(map[string]*lane, len(models))
	for _, model := range models {
		n.lanes[model] = &lane{done: make(chan struct{}), deferred: n.deferred}
	}
	close(n.shared)
	if n.deferred && n.sharedErr == nil {
		for _, l := range n.lanes {
			close(l.done)
		}

		return
	}
	var group sync.WaitGroup
	for model, l := range n.lanes {
		group.Go(func() {
			defer close(l.done)
			l.err = c.lane(ctx, n, l, model)
		})
	}
	group.Wait()
	c.end(ctx, n)
}

// whole runs a step that is for no model in particular. It waits for what it needs to have ended for every model.
func (c *run) whole(ctx context.Context, n *node) error {
	if err := c.needed(n, ""); err != nil {
		return err
	}
	c.begin(n)
	act := c.call
	if n.kind == KindReplay {
		act = c.replay
	}

	return c.try(ctx, n, func(ctx context.Context) error { return act(ctx, n) })
}

// needed waits for what a step needs to have ended for the model.
func (c *run) needed(n *node, model string) error {
	for _, need := range n.needs {
		if err := c.byName[need].awaited(model); err != nil {
			return skipped(need, err)
		}
	}

	return nil
}

// lane runs a step for one model.
func (c *run) lane(ctx context.Context, n *node, l *lane, model string) error {
	if err := c.needed(n, model); err != nil {
		return err
	}
	c.begin(n)
	if n.kind == KindWait {
		return c.try(ctx, n, func(ctx context.Context) error { return c.waitFor(ctx, n, model) })
	}
	select {
	case c.runner.lanes <- struct{}{}:
		defer func() { <-c.runner.lanes }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	warming := &inference{run: c, node: n, lane: l, model: model}

	return c.try(ctx, n, warming.try)
}

// try does f until it succeeds, each try within the step's timeout, with a back-off in between.
func (c *run) try(ctx context.Context, n *node, f func(context.Context) error) error {
	pause := backoff{next: 250 * time.Millisecond, limit: 10 * time.Second}
	for try := 0; ; try++ {
		c.runner.mu.Lock()
		n.tries = max(n.tries, try+1)
		c.runner.mu.Unlock()
		limited, cancel := c.limits.with(ctx, n.timeout, "")
		err := f(limited)
		cancel()
		if err == nil || ctx.Err() != nil || try >= n.retries || hopeless(err) {
			return err
		}
		c.runner.mu.Lock()
		n.text = err.Error()
		c.runner.mu.Unlock()
		if stopped := pause.wait(ctx); stopped != nil {
			return fmt.Errorf("%w; before that: %w", stopped, err)
		}
	}
}

// hopeless says that another try within this run would end alike.
func hopeless(err error) bool {
	return errors.Is(err, backend.ErrCredentialsRefused) || errors.Is(err, backend.ErrNotOffered) || errors.Is(err, backend.ErrNoRequest) || errors.Is(err, errOvertaken)
}

func (c *run) begin(n *node) {
	n.begun.Do(func() {
		c.runner.mu.Lock()
		n.state, n.started = StepRunning, time.Now()
		c.runner.mu.Unlock()
		c.emit(Event{Kind: StepStarted, Step: n.name})
	})
}

// end notes and logs how a step ended.
func (c *run) end(ctx context.Context, n *node) {
	var failed error
	skippedOnly := true
	note := func(err error) {
		if err == nil {
			return
		}
		failed = errors.Join(failed, err)
		if _, skipped := errors.AsType[*skippedError](err); !skipped {
			skippedOnly = false
		}
	}
	note(n.sharedErr)
	succeeded := 0
	models := make([]string, 0, len(n.lanes))
	for model := range n.lanes {
		models = append(models, model)
	}
	slices.Sort(models)
	for _, model := range models {
		if err := n.lanes[model].err; err != nil {
			note(fmt.Errorf("model %s: %w", model, err))
		} else {
			succeeded++
		}
	}
	state := StepSucceeded
	switch {
	case failed != nil && skippedOnly && succeeded == 0:
		state = StepSkipped
	case failed != nil:
		state = StepFailed
	}
	read := c.runner.read(n.name)
	defer c.emit(Event{Kind: StepEnded, Step: n.name, Error: failed, Pages: read})
	c.runner.mu.Lock()
	n.state, n.text = state, ""
	if failed != nil {
		n.text = failed.Error()
	}
	if !n.started.IsZero() {
		n.took = time.Since(n.started)
	}
	if failed == nil && !c.runner.logger.Enabled(ctx, slog.LevelInfo) {
		c.runner.mu.Unlock()

		return
	}
	attrs := []slog.Attr{
		slog.String("step", n.name), slog.String("kind", n.kind.String()), slog.String("result", state.String()),
		slog.Duration("took", n.took), slog.Int("tries", n.tries),
	}
	var shapes []string
	for _, s := range c.shapes {
		if s.report.Step == n.name {
			shapes = append(shapes, s.report.String())
		}
	}
	c.runner.mu.Unlock()
	level := slog.LevelInfo
	if failed != nil {
		level = slog.LevelWarn
		if errors.Is(context.Cause(ctx), context.Canceled) {
			level = slog.LevelDebug // nobody wants the run any more: that is no failure
		}
		attrs = append(attrs, slog.String("error", strings.ReplaceAll(failed.Error(), "\n", "; ")))
	}
	if shapes != nil {
		attrs = append(attrs, slog.Any("shapes", shapes))
	}
	if read != nil {
		attrs = append(attrs, slog.String("page_cache", read.String()))
	}
	c.runner.logger.LogAttrs(ctx, level, "warm-up step ended", attrs...)
}
