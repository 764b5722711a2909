package circuit

import "time"

// Idle is how long no user's exchange has been under way: 0 while one is. It is as exact as a twentieth of stalled_after.
func (b *Breaker) Idle() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	c := b.flights.census(0)
	if c.count > 0 {
		return 0
	}
	lastGood := b.window.work()

	return max(now-b.lastWork(c, lastGood), 0)
}
