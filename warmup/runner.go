package warmup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// Settings is what a Runner is made of.
type Settings struct {
	Config Config
	// Client reaches the backend.
	Client *backend.Client
	// Dialect is how the backend is spoken to; nil: found out by asking it.
	Dialect backend.Dialect
	// Models to warm; empty: those that the backend has loaded.
	Models []string
	// Required says whether a model must be warm; nil: every model. It is called from any goroutine.
	Required func(model string) bool
	// Workers is the number of processes behind the backend's port; 0: unknown, taken for 1.
	Workers int
	// Progress is called for each event, one at a time and in order, from the goroutines of the run. It must not call Run; it may call the rest.
	Progress func(Event)
	// Logger gets one line for each step that ended; nil: silent.
	Logger *slog.Logger
}

// ErrRunning means that a run is in progress, and that there can be only one.
var ErrRunning = errors.New("a warm-up is running already")

// maxLanes bounds how many models are sent inferences at once: more would warm each other's queues, not kernels.
const maxLanes = 4

// Runner runs the plan, as often as it is asked to: at the start, and again whenever the backend has become cold. All methods are safe for
// concurrent use.
type Runner struct {
	settings Settings
	plan     Plan
	logger   *slog.Logger
	running  sync.Mutex
	// lanes holds a token for each model that is being sent inferences.
	lanes chan struct{}
	// seeds makes every request of this process another one.
	seeds atomic.Uint64

	// events keeps Progress to one call at a time.
	events sync.Mutex

	// mu guards what follows, and everything in current that it says it guards.
	mu      sync.Mutex
	runs    int
	current *run
	dialect backend.Dialect
	// known describes models, from the latest run or synthetic request on.
	known map[string]backend.Model
	// found are the models that the backend had loaded, when none were named.
	found []string
	// levels are the warm levels of each model's cheapest shape. They outlive the run.
	levels map[string]time.Duration
}

// NewRunner checks the plan; it calls nobody yet.
func NewRunner(s Settings) (*Runner, error) {
	if s.Client == nil {
		return nil, errors.New("make warm-up: no client")
	}
	plan, err := NewPlan(s.Config.Steps)
	if err != nil {
		return nil, fmt.Errorf("check warm-up plan: %w", err)
	}
	if s.Config.Timeout <= 0 {
		s.Config.Timeout = DefaultConfig().Timeout
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	if s.Required == nil {
		s.Required = func(string) bool { return true }
	}
	s.Models = slices.Clone(s.Models)
	r := &Runner{
		settings: s, plan: plan, logger: s.Logger, lanes: make(chan struct{}, maxLanes), dialect: s.Dialect,
		known: map[string]backend.Model{}, levels: map[string]time.Duration{},
	}
	r.seeds.Store(rand.Uint64()) //nolint:gosec // requests need to differ, not to be secret

	return r, nil
}

// Plan returns the checked plan.
func (r *Runner) Plan() Plan { return r.plan }

// Run runs the plan once and returns its report. The error says which required steps failed for which required models; models that are in no
// error are as their reports say. It is ErrCredentialsRefused, by [errors.Is], when the backend refused them. Whoever calls it calls it again,
// with a back-off: no failure is final. When ctx ends, connections to the backend are closed and Run returns soon after.
func (r *Runner) Run(ctx context.Context) (Report, error) {
	if !r.running.TryLock() {
		return r.Report(), ErrRunning
	}
	defer r.running.Unlock()
	limit := r.settings.Config.Timeout.Std()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("warm-up timed out after %v", limit))
	defer cancel()
	current := newRun(r)
	r.mu.Lock()
	r.runs++
	current.number = r.runs
	r.current = current
	// Whatever came back may be another server with other models.
	r.dialect = r.settings.Dialect
	clear(r.known)
	r.found = nil
	r.mu.Unlock()
	err := current.do(ctx)

	return r.Report(), err
}

// Report returns the report of the latest run, also while it goes on.
func (r *Runner) Report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return Report{}
	}

	return r.current.report()
}

// Level is the warm level of the cheapest shape; of several models, that of the slowest one, since Synthetic asks them all. 0: unknown.
func (r *Runner) Level() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var slowest time.Duration
	for _, level := range r.levels {
		slowest = max(slowest, level)
	}

	return slowest
}

// Remaining is how long the run in progress will go on, by what was measured so far; 0 when nobody can say, or none is in progress.
func (r *Runner) Remaining() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return 0
	}

	return r.current.remaining()
}

func (r *Runner) emit(event Event) {
	if r.settings.Progress == nil {
		return
	}
	event.At = time.Now()
	r.events.Lock()
	defer r.events.Unlock()
	r.settings.Progress(event)
}

// speak returns the dialect, finding it out when nobody knows it yet.
func (r *Runner) speak(ctx context.Context) (backend.Dialect, error) {
	r.mu.Lock()
	dialect := r.dialect
	r.mu.Unlock()
	if dialect != nil {
		return dialect, nil
	}
	dialect, err := backend.Detect(ctx, r.settings.Client)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.dialect = dialect
	r.mu.Unlock()

	return dialect, nil
}

// describe returns what the model takes, asking the backend once.
func (r *Runner) describe(ctx context.Context, dialect backend.Dialect, name string) (backend.Model, error) {
	r.mu.Lock()
	model, known := r.known[name]
	r.mu.Unlock()
	if known {
		return model, nil
	}
	model, err := dialect.Describe(ctx, name)
	if err != nil {
		return backend.Model{}, err
	}
	r.mu.Lock()
	r.known[name] = model
	r.mu.Unlock()

	return model, nil
}

// named returns the models that the configuration names, and whether the backend is to be asked for more.
func (r *Runner) named() (models []string, discover bool) {
	models = slices.Clone(r.settings.Models)
	discover = len(models) == 0
	all := discover
	for _, s := range r.plan.steps {
		if s.kind != KindInfer {
			continue
		}
		if s.infer.Model == "" {
			all = false
		} else if !slices.Contains(models, s.infer.Model) {
			models = append(models, s.infer.Model)
		}
	}

	return models, discover && (!all || len(models) == 0)
}

// models returns the models to warm. ErrNotYet: the backend has loaded none so far.
func (r *Runner) models(ctx context.Context, dialect backend.Dialect) ([]string, error) {
	models, discover := r.named()
	if !discover {
		return models, nil
	}
	r.mu.Lock()
	found := slices.Clone(r.found)
	r.mu.Unlock()
	if len(found) == 0 {
		listed, err := dialect.Models(ctx)
		if errors.Is(err, backend.ErrNotOffered) && len(models) == 0 {
			// A server that is not through with its start may answer anything.
			if notReady := dialect.Ready(ctx, ""); notReady != nil {
				return nil, notReady
			}

			return nil, fmt.Errorf("find models: this server lists none, name them under models: %w", err)
		}
		if err != nil && !errors.Is(err, backend.ErrNotOffered) {
			return nil, err
		}
		found = listed
		r.mu.Lock()
		r.found = slices.Clone(listed)
		r.mu.Unlock()
	}
	for _, model := range found {
		if !slices.Contains(models, model) {
			models = append(models, model)
		}
	}
	if len(models) == 0 {
		return nil, &backend.Error{Act: "find models", Kind: backend.ErrNotYet, Err: errors.New("the backend has loaded none")}
	}

	return models, nil
}

// back is a back-off with jitter.
type back struct{ next, limit time.Duration }

// off waits for the next delay; it returns the context's cause when that ends first.
func (b *back) off(ctx context.Context) error {
	delay := b.next/2 + rand.N(b.next) //nolint:gosec // jitter needs no secrecy
	b.next = min(2*b.next, b.limit)

	return sleep(ctx, delay)
}

func sleep(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
