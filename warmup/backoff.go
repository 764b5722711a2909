package warmup

import (
	"context"
	"math/rand/v2"
	"time"
)

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
