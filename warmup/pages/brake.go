package pages

import (
	"context"
	"fmt"
	"sync"
)

// brake makes a Prefetch pause.
type brake struct {
	mu sync.Mutex
	// why is empty while nothing stands against going on; released is closed when it becomes so again.
	why      string
	released chan struct{}
}

// set pauses with a reason, or goes on with none.
func (b *brake) set(why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why == "" && why != "" {
		b.released = make(chan struct{})
	}
	if b.why != "" && why == "" {
		close(b.released)
	}
	b.why = why
}

func (b *brake) reason() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.why
}

// wait waits while there is a reason to pause. Its error says which.
func (b *brake) wait(ctx context.Context) error {
	for {
		b.mu.Lock()
		why, released := b.why, b.released
		b.mu.Unlock()
		if why == "" {
			return ctx.Err()
		}
		select {
		case <-released:
		case <-ctx.Done():
			return fmt.Errorf("%w, while paused: %s", context.Cause(ctx), why)
		}
	}
}
