package circuit

import (
	"fmt"
	"time"
)

// recheckEvery is how often a bad rate is looked at again while synthetic requests pass.
const recheckEvery = 5 * time.Second

// doubt is what the failure rate makes us think of the backend.
type doubt int32

const (
	noDoubt doubt = iota
	// suspected: the rate is bad, and a synthetic request is to say whether the backend is.
	suspected
	// usersFailing: the rate is bad and a synthetic request passed. Verdicts change nothing now; we look again now and then.
	usersFailing
)

// recheck is when a bad rate is looked at again. It is guarded by the breaker's lock.
type recheck struct {
	at  time.Duration // when to look at the rate again
	ask time.Duration // when to ask again, if it is still bad
	gap time.Duration
}

// suspect hears of a bad verdict and the window after it. Unless the rate is bad and was not before, this is two loads and a comparison.
func (b *Breaker) suspect(era uint32, t Tally, now time.Duration) {
	if doubt(b.doubt.Load()) != noDoubt || t.judged() < b.config.MinRequests || t.rate() < b.config.FailureRate {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != Closed || b.forced || b.era != era || doubt(b.doubt.Load()) != noDoubt {
		return
	}
	switch {
	case !b.asks():
		b.trip(b.rateText(t) + ", and no synthetic request is possible")
	case !b.config.Confirm:
		b.trip(b.rateText(t))
	default:
		b.doubt.Store(int32(suspected))
		b.recheck = recheck{at: now, ask: now, gap: recheckEvery}
		b.wake()
	}
}

// lookRate asks for a synthetic request when the rate is bad and it is time. The lock is held.
func (b *Breaker) lookRate(now time.Duration) (question, time.Duration) {
	switch doubt(b.doubt.Load()) {
	case suspected:
		return askConfirmed, never
	case usersFailing:
		if now < b.recheck.at {
			return askNothing, b.recheck.at
		}
		t := b.window.tally(now)
		if t.rate() < b.config.FailureRate {
			b.calm(b.rateText(t))

			return askNothing, never
		}
		b.recheck.at = now + recheckEvery
		if now >= b.recheck.ask && t.judged() >= b.config.MinRequests {
			return askConfirmed, never
		}

		return askNothing, b.recheck.at
	case noDoubt:
	}

	return askNothing, never
}

// confirmed hears the synthetic request that was asked because of the rate. The lock is held.
func (b *Breaker) confirmed(err error, now time.Duration) {
	t := b.window.tally(now)
	switch {
	case err != nil:
		b.trip(b.rateText(t) + ", synthetic request failed: " + err.Error())
	case t.rate() < b.config.FailureRate:
		b.calm(b.rateText(t))
	default:
		if doubt(b.doubt.Load()) != usersFailing {
			b.doubt.Store(int32(usersFailing))
			b.tell(notice{failing: true, on: true, text: b.rateText(t) + ", synthetic request passed"})
		}
		b.recheck.at = now + recheckEvery
		b.recheck.ask = now + b.recheck.gap
		b.recheck.gap = min(2*b.recheck.gap, longestGap)
	}
}

// calm ends every doubt about the rate. The lock is held.
func (b *Breaker) calm(text string) {
	if doubt(b.doubt.Load()) == usersFailing {
		b.tell(notice{failing: true, on: false, text: text})
	}
	b.doubt.Store(int32(noDoubt))
}

func (b *Breaker) rateText(t Tally) string {
	return fmt.Sprintf("%.0f %% of %d exchanges failed within %s", 100*t.rate(), t.judged(), b.config.Window)
}
