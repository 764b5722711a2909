package health

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
)

// Keeper drives a [Machine]: it runs the warm-up, follows the backend while it is up, and turns what it sees into moves.
// Its life is a series of cycles. A cycle begins with a backend that is not warm and ends when the backend is lost or a new warm-up is asked for.
type Keeper struct {
	settings KeeperSettings

	// mu orders what ends a cycle against what begins one. It is never held while a warm-up runs.
	mu sync.Mutex
	// end ends the present cycle; nil between two cycles.
	end context.CancelFunc
	// spawn starts something that ends with the present cycle; nil between two cycles.
	spawn func(func(ctx context.Context))
	// wanted are the models that are to be warmed again once the plan has ended; nil while no plan is being run. Guarded by mu.
	wanted map[string]bool
	// resting is true once the backend may stay cold until somebody asks for it. Guarded by mu.
	resting bool
	// asked holds a token once somebody has asked for a backend that is cold on purpose.
	asked chan struct{}
	// suspecting is true while a suspicion is being decided: one at a time.
	suspecting atomic.Bool
}

// KeeperSettings are what a Keeper needs from the other rooms.
type KeeperSettings struct {
	Machine *Machine
	// Warm runs the plan once and calls up as soon as the backend answers at all. It returns when the plan has ended or ctx is done.
	// An error that wraps a [*ConditionError] is reported under its code, any other under [CodeWarmFailed].
	Warm func(ctx context.Context, up func()) ([]ModelWarmth, error)
	// WarmModel runs what one model needs of the plan. Its error is reported as that of Warm, but for the model; nil: models are warmed with the others only.
	WarmModel func(ctx context.Context, model string) (ModelWarmth, error)
	// Background warms what the plan has left for later, beside users, until it is through or ctx is done; nil: nothing is left.
	Background func(ctx context.Context)
	// Watch watches a backend that is up until ctx ends.
	Watch func(ctx context.Context, report func(WatchEvent))
	// Confirm sends one synthetic request to decide about a suspicion; nil where that is not wanted or not possible.
	Confirm func(ctx context.Context) error
	// Sick is told that the backend's checks fail and the suspicion is confirmed.
	Sick func(reason string)
	// Gone is told, while the gate already holds, that the backend has been lost.
	Gone func()
	// WarmWhileDraining is told that the plan has ended while the pod drains: no state may say so any more, but held requests can go.
	WarmWhileDraining func()
	// OnDemand leaves a backend that answers cold until somebody asks for it, see [Keeper.Asked].
	OnDemand bool
	// Answers waits until the backend answers at all. It is needed by OnDemand and by [Keeper.Rest].
	Answers func(ctx context.Context) error
	// Waiting says whether somebody waits for the backend already. Nil: nobody does.
	Waiting func() bool
	// ServeUnwarmed lets traffic in, as degraded, although the warm-up failed.
	ServeUnwarmed bool
	Logger        *slog.Logger
}

const (
	// firstRetry and longestRetry bound the pause between two runs of a plan that failed.
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
	// reminder is how often a pod that is not ready says so in the log.
	reminder = 30 * time.Second
)

// NewKeeper returns a Keeper that does nothing until [Keeper.Run].
func NewKeeper(settings KeeperSettings) *Keeper {
	if settings.Logger == nil {
		settings.Logger = slog.New(slog.DiscardHandler)
	}

	return &Keeper{settings: settings, asked: make(chan struct{}, 1)}
}

// Run warms the backend, follows it, and warms it again when it was lost, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	var reminding sync.WaitGroup
	defer reminding.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reminding.Go(func() { k.settings.Machine.Remind(ctx, reminder) })
	for ctx.Err() == nil {
		k.cycle(ctx)
	}

	return nil
}

// Lost says that the backend is gone: a connection was refused, or it vanished. When Lost returns the gate holds.
func (k *Keeper) Lost(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	state := k.settings.Machine.Pod()
	if k.end == nil || state == Starting || state == Cold {
		return
	}
	k.settings.Machine.MoveAll(Cold, fmt.Sprintf("backend lost: %v", cause))
	k.settings.Gone()
	k.endCycle()
}

// Rewarm asks for the plan to be run again. The gate holds until it has ended.
func (k *Keeper) Rewarm(reason string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	state := k.settings.Machine.Pod()
	if k.end != nil && state == Idle {
		k.Asked()

		return nil
	}
	if k.end == nil || !state.Serves() {
		return fmt.Errorf("re-warm: the pod is %s, expected ready or degraded", state)
	}
	k.settings.Machine.MoveAll(Warming, reason)
	k.endCycle()

	return nil
}

// Opened says that the circuit breaker has opened, under the condition that explains it.
func (k *Keeper) Opened(code Code, reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.settings.Machine.Snapshot().Backend.State.Serves() {
		k.settings.Machine.Raise("", code, reason)
		k.move("", Unhealthy, reason)
	}
}

// Healed says that a synthetic request has passed while the breaker was open: users may come back.
func (k *Keeper) Healed(reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// A breaker may heal a backend that was lost meanwhile; only what it made unhealthy is its to make ready.
	machine := k.settings.Machine
	if machine.Snapshot().Backend.State == Unhealthy {
		machine.Clear("", CodeBreakerOpen)
		machine.Clear("", CodeStalled)
		machine.Clear("", CodeFatalBackend)
		k.move("", Ready, reason)
	}
}

// UsersFailing says whether users' requests fail although synthetic ones pass.
func (k *Keeper) UsersFailing(failing bool, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	machine := k.settings.Machine
	switch {
	case failing:
		machine.Raise("", CodeUsersFailing, text)
		if machine.Snapshot().Backend.State == Ready {
			k.move("", Degraded, text)
		}
	case slices.Contains(machine.Snapshot().Codes(), CodeUsersFailing):
		machine.Clear("", CodeUsersFailing)
		if machine.Snapshot().Backend.State == Degraded {
			k.move("", Ready, "users succeed again")
		}
	}
}

// warmthCodes are the conditions that a run of the plan settles.
var warmthCodes = []Code{
	CodeBackendUnreachable, CodeModelNotLoaded, CodeNotRecognised, CodeWaitingForCalm, CodeWarmFailed, CodeWarmedNothing, CodeNotConverged, CodeGPUTimeSpent, CodeOptionalFailed, CodeWorkersUnknown, CodeCredentialsRefused,
	CodeBackendLost, CodeBackendRestarted,
}

// serviceCodes are those that come up while users are served. A run settles them as well, unless it has let users in before its end.
var serviceCodes = []Code{CodeCheckFailed, CodeUsersFailing, CodeStalled, CodeFatalBackend, CodeBreakerOpen}

// cycle makes one backend warm, then follows it until it is lost, a new warm-up is asked for, or ctx ends.
func (k *Keeper) cycle(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	k.mu.Lock()
	k.end = end
	k.spawn = func(do func(context.Context)) { watching.Go(func() { do(ctx) }) }
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.spawn = nil
		k.mu.Unlock()
	}()

	watch := sync.OnceFunc(func() {
		watching.Go(func() {
			k.settings.Watch(ctx, func(event WatchEvent) { k.observe(ctx, event, watching.Go) })
		})
	})
	up := sync.OnceFunc(func() {
		k.ifCurrent(ctx, func() { k.settings.Machine.MoveAll(Warming, "the backend answers") })
		watch()
	})
	if k.rest(ctx, watch) != nil {
		return
	}
	k.warm(ctx, up)
	if k.settings.Background != nil {
		k.settings.Background(ctx)
	}
	<-ctx.Done()
}

// warm runs the plan until it succeeds, ctx ends, or the policy is to serve all the same.
func (k *Keeper) warm(ctx context.Context, up func()) {
	retry := firstRetry
	defer k.planEnded(ctx)
	for {
		k.planBegins()
		models, err := k.settings.Warm(ctx, up)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			k.ifCurrent(ctx, func() { k.accept(models) })

			return
		}
		k.settings.Machine.Raise("", codeOf(err), err.Error())
		if k.settings.ServeUnwarmed {
			k.ifCurrent(ctx, func() { k.settings.Machine.MoveAll(Degraded, "not warm, and warmup.on_failure is serve") })
			if k.settings.Machine.Pod().Serves() {
				return
			}
			// A backend that has not even answered cannot be let serve: it is waited for.
		}
		k.settings.Logger.Warn("the warm-up failed and will be tried again", "error", err, "in", retry)
		if !pause(ctx, jitter(retry)) {
			return
		}
		retry = min(2*retry, longestRetry)
	}
}

// codeOf returns the code under which a failed warm-up is reported.
func codeOf(err error) Code {
	if condition := (*ConditionError)(nil); errors.As(err, &condition) {
		return condition.Code
	}

	return CodeWarmFailed
}

// accept turns what a run of the plan found into states: models first, the backend last, so that the pod moves once.
func (k *Keeper) accept(found []ModelWarmth) {
	machine := k.settings.Machine
	configs := make([]ModelConfig, 0, len(found))
	for _, model := range found {
		configs = append(configs, model.ModelConfig)
	}
	machine.SetModels(configs)
	if machine.Pod() == Draining {
		k.settings.WarmWhileDraining()

		return
	}
	// Users may be let in before the plan's end, see ModelEnded. What they, the breaker and the checks have found since has the last word.
	state := machine.Snapshot().Backend.State
	serving := state.Serves() || state == Unhealthy
	k.clear("", serving)
	for _, model := range found {
		if k.wanted[model.Name] {
			continue // it was asked for after the plan was through with it
		}
		k.settle(model)
		if !model.State.Serves() && k.settings.WarmModel != nil && k.spawn != nil {
			k.spawn(func(ctx context.Context) { k.warmModel(ctx, model.Name, firstRetry) })
		}
	}
	if !serving {
		k.move("", Ready, "warm")
	}
}

// clear clears the conditions of a scope that a run of the plan settles.
func (k *Keeper) clear(scope string, serving bool) {
	for _, code := range warmthCodes {
		k.settings.Machine.Clear(scope, code)
	}
	if !serving {
		for _, code := range serviceCodes {
			k.settings.Machine.Clear(scope, code)
		}
	}
}

// observe turns what the watch saw into moves. What takes time is started with spawn, since the watch waits for this to return.
func (k *Keeper) observe(ctx context.Context, event WatchEvent, spawn func(func())) {
	switch event.Kind {
	case Lost, Restarted:
		k.lostIn(ctx, event)
	case CheckFailed:
		if k.settings.Machine.Pod().Serves() && k.suspecting.CompareAndSwap(false, true) {
			spawn(func() {
				defer k.suspecting.Store(false)
				k.suspect(ctx, event)
			})
		}
	case CheckPassed:
		k.settings.Machine.Clear("", CodeCheckFailed)
	}
}

// suspect decides about a backend whose checks fail: an endpoint's word alone never takes a pod out if it can be checked.
func (k *Keeper) suspect(ctx context.Context, event WatchEvent) {
	text := fmt.Sprintf("%d checks in a row failed: %v", event.InARow, event.Cause)
	k.settings.Machine.Raise("", CodeCheckFailed, text)
	if k.settings.Confirm != nil && k.settings.Confirm(ctx) == nil {
		return
	}
	if ctx.Err() == nil {
		k.settings.Sick(text)
	}
}

// lostIn loses the backend unless the cycle that saw it happen has ended: a late word about an old backend is not about the new one.
func (k *Keeper) lostIn(ctx context.Context, event WatchEvent) {
	if ctx.Err() != nil {
		return
	}
	if event.Kind == Restarted {
		k.settings.Machine.Raise("", CodeBackendRestarted, event.Cause.Error())
	}
	k.Lost(event.Cause)
}

// ifCurrent does something unless the cycle of ctx has ended.
func (k *Keeper) ifCurrent(ctx context.Context, do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() == nil {
		do()
	}
}

// endCycle ends the present cycle. The caller holds mu.
func (k *Keeper) endCycle() {
	k.end()
	k.end, k.spawn = nil, nil
}

// move makes a move that the table may refuse, for instance because the pod drains: that is news for the log, not a failure.
func (k *Keeper) move(scope string, to State, reason string) {
	if err := k.settings.Machine.Move(scope, to, reason); err != nil {
		k.settings.Logger.Debug("a move was refused", "error", err)
	}
}

// jitter spreads d by a fifth either way, so that pods started together do not stay together.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // spreading load needs no secrecy
}
