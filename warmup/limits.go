package warmup

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// limits are the time limits of a run. Waits for a calm machine stop their clocks: whoever is put off must not find that the time is up meanwhile.
type limits struct {
	mu sync.Mutex
	// paused counts those who wait.
	paused int
	timers map[*limit]bool
}

// limit is one of them.
type limit struct {
	timer *time.Timer
	ends  time.Time
	// left is what was left when the clock was stopped.
	left time.Duration
}

// expiredError is the cause of a context whose time is up. It is a [context.DeadlineExceeded] whose text says which time.
type expiredError struct{ text string }

func (e *expiredError) Error() string { return e.text }

func (e *expiredError) Is(target error) bool { return target == context.DeadlineExceeded }

// with returns a context that ends once the time is up, because what it is for timed out.
func (l *limits) with(ctx context.Context, after time.Duration, what string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &limit{left: after, ends: time.Now().Add(after)}
	l.mu.Lock()
	defer l.mu.Unlock()
	one.timer = time.AfterFunc(after, func() { cancel(&expiredError{fmt.Sprintf("%stimed out after %v", what, after)}) })
	if l.paused > 0 {
		one.timer.Stop()
	}
	if l.timers == nil {
		l.timers = map[*limit]bool{}
	}
	l.timers[one] = true

	return ctx, func() {
		l.mu.Lock()
		one.timer.Stop()
		delete(l.timers, one)
		l.mu.Unlock()
		cancel(nil)
	}
}

// pause stops every clock until the function that it returns is called.
func (l *limits) pause() (resume func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused++
	if l.paused == 1 {
		for one := range maps.Keys(l.timers) {
			one.left = time.Until(one.ends)
			one.timer.Stop()
		}
	}

	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.paused--
		if l.paused == 0 {
			for one := range maps.Keys(l.timers) {
				one.ends = time.Now().Add(one.left)
				one.timer.Reset(one.left)
			}
		}
	}
}
