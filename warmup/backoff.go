package warmup

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a pause that doubles, with jitter.
type backoff struct{ next, limit time.Duration }

// wait lets the next pause pass; it returns the context's cause when that ends first.
func (b *backoff) wait(ctx context.Context) error {
	delay := b.next/2 + rand.N(b.next) //nolint:gosec // jitter needs no secrecy
	b.next = min(2*b.next, b.limit)

	return sleep(ctx, delay)
}

// sleep lets some time pass; it returns the context's cause when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
