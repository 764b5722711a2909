package health

import (
	"context"
	"fmt"
)

// Rest says that the backend is cold on purpose, because its server unloads what nobody asks for and may: it stays so until somebody asks.
func (k *Keeper) Rest(reason string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if state := k.settings.Machine.Pod(); k.end == nil || !state.Serves() {
		return fmt.Errorf("rest: the pod is %s, expected ready or degraded", state)
	}
	k.resting = true
	k.settings.Machine.MoveAll(Idle, reason)
	k.endCycle()

	return nil
}

// Asked says that somebody wants the backend. It costs next to nothing, and means nothing but while the backend is cold on purpose.
func (k *Keeper) Asked() {
	select {
	case k.asked <- struct{}{}:
	default: // it is known
	}
}

// rest lets a backend that is cold on purpose be so until somebody asks for it. Whoever asked may leave again: the warm-up belongs to nobody.
func (k *Keeper) rest(ctx context.Context, watch func()) error {
	k.mu.Lock()
	resting := k.resting || k.settings.OnDemand
	k.resting = false
	k.mu.Unlock()
	if !resting {
		return nil
	}
	if err := k.settings.Answers(ctx); err != nil {
		return err
	}
	select { // an old wish has been fulfilled, or its owner waits
	case <-k.asked:
	default:
	}
	k.ifCurrent(ctx, func() { k.settings.Machine.MoveAll(Idle, "the backend answers, and nobody has asked for it") })
	watch()
	if k.settings.Waiting == nil || !k.settings.Waiting() {
		select {
		case <-k.asked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	k.ifCurrent(ctx, func() { k.settings.Machine.MoveAll(Warming, "somebody asks for the backend") })

	return nil
}
