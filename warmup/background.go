package warmup

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/calm"
)

// background is what a run leaves for later: the steps that are optional, and the derived shapes beyond the required ones.
type background struct {
	// jobs are the models of required steps that have shapes left, in the order in which they were described. Guarded by Runner.mu, as is the rest.
	jobs    []*inference
	running bool
	// why says why it waits.
	why string
	// latest is the time from which on it waits for nothing, and lastTook what its last volley took, for whatever shape. They belong to the goroutine of the background.
	latest   time.Time
	lastTook time.Duration
}

// Background warms what the latest run has left for later: slowly, one shape at a time, and only while the machine is calm and no user is served, but
// after Pressure.Latest at any rate. It returns when it is through, when ctx ends, or at once when there is nothing to do. No failure in it makes
// anything colder than it was: it is told by BackgroundEnded, one for each model.
func (r *Runner) Background(ctx context.Context) {
	if !r.running.TryRLock() {
		return
	}
	defer r.running.RUnlock()
	r.mu.Lock()
	c := r.current
	r.mu.Unlock()
	if c == nil || c.err != nil || ctx.Err() != nil { // nobody writes it any more
		return
	}
	c.inBackground(ctx)
}

// inBackground does the jobs, then the optional steps.
func (c *run) inBackground(ctx context.Context) {
	if len(c.background.jobs) == 0 && !slices.ContainsFunc(c.nodes, (*node).left) {
		return
	}
	c.setBackground(func(b *background) { b.running = true })
	defer c.setBackground(func(b *background) { b.running, b.why = false, "" })
	defer c.references.end()
	c.background.latest = time.Now().Add(c.runner.settings.Config.Pressure.Latest.Std())
	if sleep(ctx, backgroundAfter) != nil {
		return
	}
	c.runner.logger.InfoContext(ctx, "the shapes that are not required are warmed in the background")
	for _, job := range c.background.jobs {
		job.later(ctx)
	}
	c.setBackground(func(b *background) { b.jobs = nil })
	for _, n := range c.nodes {
		if n.left() {
			c.deferredNode(ctx, n)
		}
	}
	if ctx.Err() != nil {
		return
	}
	for _, name := range c.modelNames() {
		if c.overtaken(name) {
			continue
		}
		report, _ := c.outcome(name) // what failed was optional
		c.settle(report)
		c.emit(Event{Kind: BackgroundEnded, Model: report})
	}
	c.settleRecord(ctx, nil)
	c.runner.mu.Lock()
	spent := c.computing.read()
	c.runner.mu.Unlock()
	c.runner.logger.InfoContext(ctx, "the background has warmed the rest", "gpu_time", spent)
}

// errOvertaken is why the background gives a model up.
var errOvertaken = errors.New("the model is warmed by a run of its own")

// overtaken says whether a model has been warmed by a run of its own since: then what this one has left or found about it is of no interest any more.
func (c *run) overtaken(model string) bool {
	c.runner.mu.Lock()
	defer c.runner.mu.Unlock()

	return c.runner.partial[model] != nil
}

func (c *run) setBackground(set func(*background)) {
	c.runner.mu.Lock()
	defer c.runner.mu.Unlock()
	set(&c.background)
}

// deferredNode runs an optional step, for one model after the other.
func (c *run) deferredNode(ctx context.Context, n *node) {
	for _, model := range slices.Sorted(maps.Keys(n.lanes)) {
		l := n.lanes[model]
		l.deferred = false
		if c.overtaken(model) {
			continue
		}
		l.err = c.needed(n, model)
		if l.err == nil {
			c.begin(n)
			warming := &inference{run: c, node: n, lane: l, model: model, slow: true}
			l.err = c.try(ctx, n, warming.try)
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(l.err, errOvertaken) {
			l.err = nil
		}
	}
	c.end(ctx, n)
}

// later warms the shapes of a required step that were left, each for itself.
func (w *inference) later(ctx context.Context) {
	for _, s := range w.left {
		if s.concurrency != w.left[0].concurrency || w.run.overtaken(w.model) {
			continue // goes with its base, or is warmed by another run
		}
		one := &inference{
			run: w.run, node: w.node, lane: w.lane, model: w.model, dialect: w.dialect, identity: w.identity, described: w.described,
			base: []*shape{s}, slow: true,
		}
		for _, other := range w.left {
			if other.shape == s.shape && other != s {
				one.higher = append(one.higher, other)
			}
		}
		err := w.run.try(ctx, w.node, one.try)
		if ctx.Err() != nil {
			w.set(s, ShapeWaiting, "it was interrupted")

			return
		}
		if err != nil && !errors.Is(err, errOvertaken) {
			w.lane.later = errors.Join(w.lane.later, err)
		}
	}
}

// rest waits, before each volley of the background, as long as it should rest after the last one, and then until there is room.
func (w *inference) rest(ctx context.Context) error {
	c := w.run
	resume := c.limits.pause()
	defer resume()
	if err := sleep(ctx, backgroundRest*c.background.lastTook); err != nil {
		return err
	}
	tell := func(why string) { c.setBackground(func(b *background) { b.why = why }) }
	for {
		if watch := c.runner.settings.Calm; watch != nil {
			if err := watch.Until(ctx, calm.Go, c.background.latest, tell); err != nil {
				return err
			}
		}
		why := c.hindered()
		tell(why)
		switch {
		case w.run.overtaken(w.model):
			return errOvertaken
		case why == "":
			return context.Cause(ctx)
		}
		if err := sleep(ctx, occupiedLook); err != nil {
			return err
		}
	}
}

// hindered says why the background waits besides the machine, or nothing.
func (c *run) hindered() string {
	settings := &c.runner.settings
	late := !time.Now().Before(c.background.latest)
	switch {
	case settings.Serving != nil && !settings.Serving():
		return "the pod does not serve"
	case settings.Occupied == nil || late:
		return ""
	default:
		return settings.Occupied()
	}
}
