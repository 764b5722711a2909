package pages

import (
	"context"
	"time"
)

// pace keeps to a rate. It belongs to one goroutine.
type pace struct {
	rate int64 // bytes a second; 0: any
	next time.Time
}

// wait waits until so many bytes may be read: until what came before them has had its time.
func (p *pace) wait(ctx context.Context, bytes int64) error {
	if p.rate <= 0 {
		return nil
	}
	now := time.Now()
	due := p.next
	if due.Before(now) {
		due = now
	}
	p.next = due.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
	if due.Equal(now) {
		return nil
	}
	timer := time.NewTimer(due.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
