package circuit

import (
	"math/rand/v2"
	"time"
)

const (
	// stableFor is how long the breaker must have been closed for the next open spell to begin with open_for again.
	stableFor = time.Minute
	// jitter is the most by which a wait differs from its mean, so that many pods do not try one shared backend together.
	jitter = 0.2
)

// backoff says when an open breaker is tried. It is guarded by the breaker's lock.
type backoff struct {
	first, next time.Duration
	trial       time.Duration // when to try
	closedAt    time.Duration
}

func newBackoff(first time.Duration) backoff { return backoff{first: first, next: first} }

// opened begins an open spell. After a stable time closed the waits are short again.
func (o *backoff) opened(fromClosed bool, now time.Duration) {
	if fromClosed && now-o.closedAt >= stableFor {
		o.next = o.first
	}
	o.failed(now)
}

// failed puts the next trial off and doubles the wait after it.
func (o *backoff) failed(now time.Duration) {
	o.trial = now + jittered(o.next)
	o.next = min(2*o.next, max(longestGap, o.first))
}

func (o *backoff) closed(now time.Duration) { o.closedAt = now }

func (o *backoff) reset(now time.Duration) {
	*o = backoff{first: o.first, next: o.first, closedAt: now}
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + jitter*(2*rand.Float64()-1))) //nolint:gosec // spreads pods in time, keeps no secret
}
