package warmup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/calm"
	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
)

// Settings is what a Runner is made of.
type Settings struct {
	Config Config
	// Client reaches the backend.
	Client *backend.Client
	// Dialect is how the backend is spoken to; nil: found out by asking it.
	Dialect backend.Dialect
	// Options say what else is known about how to speak to it.
	Options backend.Options
	// Models to warm; empty: those that the backend has loaded.
	Models []string
	// Required says whether a model must be warm; nil: every model. It is called from any goroutine.
	Required func(model string) bool
	// Workers is the number of processes behind the backend's port; 0: the server is asked, and where it cannot say taken for 1.
	Workers int
	// Calm says whether the machine has room, for the trigger "calm" and for the background; nil: always.
	Calm *calm.Watch
	// Background leaves what is not required for [Runner.Background].
	Background bool
	// Occupied says why the background should wait besides, or nothing; nil: it need not. It is called from any goroutine.
	Occupied func() string
	// Serving says whether users are let in: the background waits for that however late it is, since a pod that is sick or drains is not to be burdened. Nil: they are.
	// It is called from any goroutine.
	Serving func() bool
	// Process says which process listens at the backend's address, in words that nobody who listened there before or will later shares; empty where that cannot be
	// seen. It is called from any goroutine. Nil: it cannot be seen, and no record of what is warm is written or believed.
	Process func() string
	// Answered is called with the first request of each shape that was answered well in a run, from any goroutine; who keeps the body copies it. Nil: nobody wants to know.
	Answered func(model string, of backend.Shape, path string, body []byte)
	// Recorded lists the shapes that users send to a model often, for steps whose grid names none; nil: nobody knows. It is called from any goroutine.
	Recorded func(model string) []RecordedShape
	// MemoryLeft says how much memory a prefetch may take; nil: taken for plenty.
	MemoryLeft func() pages.Room
	// Reference starts a server for the ONNX model at a path, for the rest of a run; nil: no step may ask for one.
	Reference func(ctx context.Context, path string) (*Reference, error)
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
	// running is held by a run, and shared by what goes on beside others.
	running sync.RWMutex
	// lanes holds a token for each model that is being sent inferences.
	lanes chan struct{}
	// seeds makes every request of this process another one.
	seeds atomic.Uint64
	// spoken is how the backend was last spoken to; nil until somebody knows.
	spoken   atomic.Pointer[backend.Dialect]
	planHash string
	// recordSpent is true once no record of an earlier process is to be believed any more: it was refused, or a run has ended well since.
	recordSpent atomic.Bool

	prepared atomic.Bool

	// recording keeps one record from overtaking another.
	recording sync.Mutex

	// events keeps Progress to one call at a time.
	events sync.Mutex

	// mu guards what follows, and everything in current that it says it guards.
	mu      sync.Mutex
	runs    int
	current *run
	dialect backend.Dialect
	// known describes models, from the latest run or synthetic request on.
	known map[string]backend.Model
	// partial are the latest runs for one model each, since the latest run; flights those that go on.
	partial map[string]*run
	flights map[string]*flight
	// found are the models that the backend had loaded, when none were named.
	found []string
	// levels are the warm levels of each model's cheapest shape. They outlive the run.
	levels map[string]time.Duration
	// warmed maps the models that are warm to their identities, as they were before the first inference; of those that have none it is empty.
	warmed map[string]string
	// readers are what the latest tries of prefetches read with, by the names of their steps. They outlive the run, too.
	readers map[string]*pages.Prefetch
	// before are the steps that go before the backend.
	before map[string]*preparation
	// computing counts the time of all synthetic requests.
	computing stopwatch
	// spent is the time of the tries so far of warm-ups that will be tried again, by the model of a run for one, or "".
	spent map[string]time.Duration

	suspects suspects
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
	if s.Reference == nil && slices.ContainsFunc(plan.steps, func(s step) bool { return s.infer.Expect.EqualsReference != "" }) {
		return nil, errors.New("check warm-up plan: expect.equals_reference names a model, and there is nothing to start it with")
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
	if s.Process == nil {
		s.Process = func() string { return "" }
	}
	hash, err := plan.hash(s.Config, s.Options.Sample)
	if err != nil {
		return nil, err
	}
	s.Models = slices.Clone(s.Models)
	r := &Runner{
		settings: s, plan: plan, planHash: hash, logger: s.Logger, lanes: make(chan struct{}, maxLanes), dialect: s.Dialect,
		partial: map[string]*run{}, flights: map[string]*flight{},
		known: map[string]backend.Model{}, levels: map[string]time.Duration{}, warmed: map[string]string{}, readers: map[string]*pages.Prefetch{},
		before: plan.preparations(), spent: map[string]time.Duration{},
	}
	if s.Dialect != nil {
		r.spoken.Store(&s.Dialect)
	}
	r.seeds.Store(rand.Uint64()) //nolint:gosec // requests need to differ, not to be secret

	return r, nil
}

// Run runs the plan once and returns its report. The error says which required steps failed for which required models; models that are in no
// error are as their reports say. It is ErrCredentialsRefused, by [errors.Is], when the backend refused them. Whoever calls it calls it again,
// with a back-off: no failure is final. When ctx ends, connections to the backend are closed and Run returns soon after.
func (r *Runner) Run(ctx context.Context) (Report, error) {
	if !r.running.TryLock() {
		return r.Report(), ErrRunning
	}
	defer r.running.Unlock()
	limit := r.settings.Config.Timeout.Std()
	current := newRun(ctx, r, "")
	ctx, cancel := current.limits.with(ctx, limit, "warm-up ")
	defer cancel()
	r.forgetRecord(ctx)
	r.mu.Lock()
	r.runs++
	current.number = r.runs
	r.current = current
	current.earlier = r.spent[""]
	clear(r.spent)
	clear(r.partial)
	// Whatever came back may be another server with other models.
	r.dialect = r.settings.Dialect
	clear(r.known)
	clear(r.warmed)
	r.found = nil
	r.mu.Unlock()
	err := current.do(ctx)
	current.account(ctx, err)
	current.references.end()
	current.settleRecord(ctx, err)
	report := r.Report()
	r.logger.InfoContext(ctx, "warm-up ended", "run", report.Run, "warm", err == nil, "took", report.Ended.Sub(report.Started),
		"requests", report.Requests, "gpu_time", report.GPUTime, "gpu_time_in_all", report.GPUTimeInAll)

	return report, err
}

// Report returns the report of the latest run, also while it goes on.
func (r *Runner) Report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return Report{}
	}

	report := r.current.report()
	for _, model := range slices.Sorted(maps.Keys(r.partial)) {
		report.take(r.partial[model].report())
	}

	return report
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
