package health

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// ModelsFound says which models the plan in progress is for.
func (k *Keeper) ModelsFound(models []ModelConfig) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.end != nil {
		k.settings.Machine.SetModels(models)
	}
}

// ModelEnded says that the plan in progress is through with one model, though perhaps not with others: it need not wait for them, so that one that hangs
// keeps only itself, or a pod that requires it, from being ready. Models that cannot serve are left to the plan's end.
func (k *Keeper) ModelEnded(model ModelWarmth) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.end == nil || !model.State.Serves() || k.settings.Machine.Pod() == Draining {
		return
	}
	k.settle(model)
	if k.settings.Machine.Pod().Serves() { // so the breaker's word about the backend counts from now on
		k.move("", Ready, "every required model is warm")
	}
}

// BackgroundEnded says what has become of a model that serves while the rest of its shapes were warmed: whatever it is, the model goes on serving.
func (k *Keeper) BackgroundEnded(model ModelWarmth) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, known := k.settings.Machine.Snapshot().Model(model.Name)
	if k.end != nil && known && now.State.Serves() && model.State.Serves() {
		k.settle(model)
	}
}

// RewarmModel asks for what one model needs of the plan to be run again. The others serve meanwhile, unless the pod requires this one.
func (k *Keeper) RewarmModel(model, reason string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, known := k.settings.Machine.Snapshot().Model(model)
	switch pod := k.settings.Machine.Pod(); {
	case !known:
		return fmt.Errorf("re-warm model %s: no such model", model)
	case k.spawn != nil && now.State == Warming:
		return nil // that is under way
	case k.spawn != nil && pod == Idle:
		k.Asked()

		return nil
	case k.spawn == nil || k.settings.WarmModel == nil || !pod.Serves() && pod != Warming || !now.State.Serves():
		return fmt.Errorf("re-warm model %s: it is %s and the pod %s, expected ready or degraded", model, now.State, pod)
	}
	k.move(model, Warming, reason)
	if k.wanted != nil {
		k.wanted[model] = true // the plan goes before, and has only let it in earlier

		return nil
	}
	k.spawn(func(ctx context.Context) { k.warmModel(ctx, model, 0) })

	return nil
}

// planBegins is called before each try to run the plan, which warms every model, those that were asked for meanwhile among them.
func (k *Keeper) planBegins() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = map[string]bool{}
}

// planEnded turns to the models that were asked for after the plan was through with them.
func (k *Keeper) planEnded(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := k.wanted
	k.wanted = nil
	if ctx.Err() != nil || k.settings.Machine.Pod() == Draining {
		return
	}
	for model := range wanted {
		k.move(model, Warming, "asked for while the plan was being run")
		k.spawn(func(ctx context.Context) { k.warmModel(ctx, model, 0) })
	}
}

// warmModel warms one model, after a first pause, and again until that succeeds or ctx ends.
func (k *Keeper) warmModel(ctx context.Context, model string, first time.Duration) {
	for retry := first; pause(ctx, jitter(retry)); retry = min(max(2*retry, firstRetry), longestRetry) {
		warmth, err := k.settings.WarmModel(ctx, model)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			k.ifCurrent(ctx, func() { k.settle(warmth) })

			return
		}
		k.settings.Machine.Raise(model, codeOf(err), err.Error())
		k.settings.Logger.Warn("the warm-up of a model failed and will be tried again", "model", model, "error", err)
	}
}

// settle puts a model into the state in which the plan has left it, with nothing but the conditions that the plan found. The caller holds mu.
func (k *Keeper) settle(model ModelWarmth) {
	machine := k.settings.Machine
	k.clear(model.Name, false)
	if model.Code != "" {
		machine.Raise(model.Name, model.Code, model.Text)
	}
	k.move(model.Name, model.State, cmp.Or(model.Text, "the plan has ended"))
}
