package circuit

import (
	"fmt"
	"time"
)

const (
	// firstByteFactor is how many times the longest first byte a request may wait before its silence is suspicious.
	firstByteFactor = 4
	// bluntFactor is how many times stalled_after requests must have waited where no synthetic request can be asked.
	bluntFactor = 3
	// memoryOfFirsts is how long the longest first byte of a shape is remembered at least; twice as long at most while others of it finish. For ever would be
	// wrong: one answer that came after a hang of ten minutes would make us blind for forty.
	memoryOfFirsts = 10 * time.Minute
	// longestGap bounds every back-off of ours.
	longestGap = time.Minute
)

// stall is the state of the stalled rule. It is guarded by the breaker's lock.
type stall struct {
	// notBefore is when a synthetic request may be asked again; asked is when that was last done.
	notBefore, asked time.Duration
	// gap is how long we leave the backend alone after a synthetic request that passed. It doubles while nothing moves, since an
	// idle tunnel is in flight for hours and must not cost an inference each stalled_after; any user work resets it.
	gap time.Duration
}

// lastWork is when the backend last did anything for a user, as far as c shows.
func (b *Breaker) lastWork(c census, lastGood time.Duration) time.Duration {
	return max(lastGood, c.touched, time.Duration(b.finished.Load()))
}

// stalledAt says when, at the earliest, the rule's conditions hold if nothing finishes or progresses from now on; ok is false when
// that cannot be within stalled_after. It can only become later, but for what is forgotten, so nobody has to look sooner:
// under traffic the rule costs one look each stalled_after. The lock is held.
func (b *Breaker) stalledAt() (at time.Duration, ok bool) {
	// What is stamped by the pulse may be a grain younger than it looks, so that everything is given a grain more.
	after := b.stalledAfter + b.pulse.grain
	lastGood := b.window.work()
	firsts := b.window.firstBytes()
	var e evidence
	c := b.flights.survey(b.eraStart, func(start time.Duration, shape Shape, m mark) {
		first, finished := firsts[shape]
		if !finished {
			return // it may take long: who knows
		}
		e.suspect(start + max(after, firstByteFactor*first+b.pulse.grain))
		// Requests that have their first byte are left out of the blunt rule: idle tunnels and bidirectional streams are never slow, and there is no synthetic
		// request to say so.
		if m == awaiting {
			e.wait(start + max(bluntFactor*after, firstByteFactor*first))
		}
	})
	last := b.lastWork(c, lastGood)
	if !b.asks() {
		if e.waits < bluntFactor {
			return 0, false
		}

		return max(last+after, e.waiting[bluntFactor-1]), true
	}
	if last > b.stall.asked {
		b.stall.gap, b.stall.notBefore = after, 0
	}
	if e.count == 0 {
		return 0, false
	}

	return max(last+after, e.due, b.stall.notBefore), true
}

// lookStalled asks for a synthetic request when the backend seems to hang, or opens where none is possible. The lock is held.
func (b *Breaker) lookStalled(now time.Duration) (question, time.Duration) {
	if b.stalledAfter <= 0 {
		return askNothing, never
	}
	at, ok := b.stalledAt()
	if !ok || at > now {
		next := now + b.stalledAfter
		if ok {
			next = min(next, at)
		}

		return askNothing, next
	}
	if !b.asks() {
		b.trip(b.stallText(now) + ", and no synthetic request is possible")

		return askNothing, now
	}

	return askStalled, never
}

// stalledAnswered hears the synthetic request that was asked because of silence. The lock is held.
func (b *Breaker) stalledAnswered(err error, asked, now time.Duration) {
	after := b.stalledAfter
	c := b.flights.census(b.eraStart)
	lastGood := b.window.work()
	if err != nil && b.lastWork(c, lastGood)+b.pulse.grain < asked {
		b.trip(b.stallText(now) + ", synthetic request failed: " + err.Error())

		return
	}
	// Finished user work is better evidence than a synthetic request, either way.
	b.stall.asked = asked
	b.stall.notBefore = now + max(b.stall.gap, after)
	b.stall.gap = min(2*max(b.stall.gap, after), max(longestGap, after))
}

func (b *Breaker) stallText(now time.Duration) string {
	c := b.flights.census(b.eraStart)
	lastGood := b.window.work()

	return fmt.Sprintf("stalled: nothing finished or progressed for %s with %d requests in flight, the oldest for %s",
		shortSpan(now-max(b.lastWork(c, lastGood), b.eraStart)), c.count, shortSpan(now-c.oldest))
}

// shortSpan writes a span as a person would say it.
func shortSpan(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}

	return d.Round(time.Second / 10).String()
}
