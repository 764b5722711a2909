package circuit

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"
)

// errBad is what gobreaker is told of a decision against the backend; nobody else sees it.
var errBad = errors.New("bad")

func (b *Breaker) newOwner() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     time.Nanosecond,
		ReadyToTrip: func(gobreaker.Counts) bool { return true },
		// Called under gobreaker's mutex and ours: it must not ask gobreaker anything.
		OnStateChange: func(_ string, from, to gobreaker.State) { b.turned(ours(from), ours(to)) },
	})
}

func ours(s gobreaker.State) State {
	switch s {
	case gobreaker.StateOpen:
		return Open
	case gobreaker.StateHalfOpen:
		return HalfOpen
	case gobreaker.StateClosed:
	}

	return Closed
}

// begin starts a new era: verdicts on exchanges that began before it are dropped. The lock is held.
func (b *Breaker) begin(now time.Duration, otherBackend bool) {
	b.moves++
	b.era++
	b.eraStart = now
	b.pulse.advance(now) // exchanges that begin from now on must not look older than the era
	b.stall = stall{}
	b.window.begin(b.era, otherBackend)
	if otherBackend {
		b.finished.Store(0)
	}
	b.publish()
}

// publish shows era and state to Allow. The lock is held.
func (b *Breaker) publish() { b.word.Store(uint64(b.era)<<2 | uint64(b.state)) } //nolint:gosec // a state is 0, 1 or 2

// finish notes user work that ended at a time.
func (b *Breaker) finish(at time.Duration) {
	if int64(at) > b.finished.Load() {
		b.finished.Store(int64(at)) // a race leaves one of two times that are nanoseconds apart
	}
}

// trip opens the breaker. The lock is held.
func (b *Breaker) trip(reason string) {
	done := b.round.done
	if b.state == Closed {
		done, _ = b.owner.Allow() // a closed gobreaker never refuses
	}
	if b.state == Open || done == nil {
		return
	}
	b.calm("the breaker opens")
	b.reason = reason
	done(errBad)
}

// heal closes a half-open breaker. The lock is held.
func (b *Breaker) heal(reason string) {
	b.reason = reason
	b.round.done(nil)
}

// renew closes the breaker from whatever state, which gobreaker itself cannot. The lock is held.
func (b *Breaker) renew(reason string, now time.Duration) {
	b.owner = b.newOwner()
	b.reason = reason
	if b.state != Closed {
		b.turned(b.state, Closed)
	}
	b.backoff.closed(now)
}

// turned follows gobreaker's state. The lock is held.
func (b *Breaker) turned(from, to State) {
	now := b.now()
	b.state, b.since = to, time.Now()
	b.moves++
	switch to {
	case Open:
		b.backoff.opened(from == Closed, now)
		b.begin(now, false)
	case Closed:
		b.backoff.closed(now)
	case HalfOpen:
	}
	b.round = round{tickets: b.round.tickets}
	b.stall = stall{}
	b.publish()
	b.tell(notice{from: from, to: to, text: b.reason})
}
