package circuit

import (
	"fmt"
	"slices"
	"time"
)

// round is one half-open spell: as many user trials as half_open.requests, judged together. It is guarded by the breaker's lock.
type round struct {
	done    func(error) // gobreaker's one call, which the whole round is
	began   time.Duration
	trials  []trial
	tickets uint32 // numbers given out, never 0 and over all rounds, so that a late verdict finds no stranger's trial
}

type trial struct {
	ticket  uint32
	began   time.Duration
	verdict Verdict // None: not yet
}

// admit returns the ticket of a trial, or 0 when there are enough.
func (r *round) admit(want int, now time.Duration) uint32 {
	if len(r.trials) >= want {
		return 0
	}
	r.tickets++
	if r.tickets == 0 {
		r.tickets++
	}
	r.trials = append(r.trials, trial{ticket: r.tickets, began: now})

	return r.tickets
}

// settle notes a verdict; false when the trial is none of this round's. None gives the slot to the next user.
func (r *round) settle(ticket uint32, v Verdict) bool {
	at := slices.IndexFunc(r.trials, func(t trial) bool { return t.ticket == ticket })
	if at < 0 {
		return false
	}
	if v == None {
		r.trials = slices.Delete(r.trials, at, at+1)
	} else {
		r.trials[at].verdict = v
	}

	return true
}

// tally counts the trials by verdict; None are those without one.
func (r *round) tally() Tally {
	var t Tally
	for _, trial := range r.trials {
		switch trial.verdict {
		case Good:
			t.Good++
		case Bad:
			t.Bad++
		case None:
			t.None++
		}
	}

	return t
}

// syntheticTrials says whether a synthetic request goes before the users.
func (b *Breaker) syntheticTrials() bool { return b.config.HalfOpen.Synthetic && b.asks() }

// asks says whether a synthetic request is possible, as far as is known.
func (b *Breaker) asks() bool { return b.synthetic != nil && !b.blunt.Load() }

// lookOpen says what an open breaker does now. The lock is held.
func (b *Breaker) lookOpen(now time.Duration) (question, time.Duration) {
	switch {
	case b.forced:
		return askNothing, never
	case now < b.backoff.trial:
		return askNothing, b.backoff.trial
	case b.syntheticTrials():
		return askTried, never
	default:
		return askNothing, b.halve("users are the trials", now)
	}
}

// halve turns the breaker half-open and returns when to look again. The lock is held.
func (b *Breaker) halve(reason string, now time.Duration) time.Duration {
	b.reason = reason
	done, err := b.owner.Allow()
	if err != nil {
		// gobreaker has been open for less than its timeout of a nanosecond.
		b.backoff.trial = now + time.Millisecond

		return b.backoff.trial
	}
	b.round.done, b.round.began = done, now

	return now
}

// triedSynthetically hears the synthetic request that goes before the users. The lock is held.
func (b *Breaker) triedSynthetically(err error, now time.Duration) {
	if err == nil {
		b.halve("synthetic request passed", now)

		return
	}
	b.backoff.failed(now)
	b.reason = "synthetic request failed: " + err.Error()
}

// lookHalfOpen ends a round in time. The lock is held.
//
// After a good synthetic request, users' silence says nothing: at half_open.timeout the breaker closes if no trial is under way,
// and otherwise one more synthetic request decides (a trial may be a long inference as well as a hang). Where users are the only
// trials, each has half_open.timeout for its first byte, or is a bad one; without users the breaker stays half-open, which fails nobody.
func (b *Breaker) lookHalfOpen(now time.Duration) (question, time.Duration) {
	limit := b.config.HalfOpen.Timeout.Std()
	if b.syntheticTrials() {
		if now < b.round.began+limit {
			return askNothing, b.round.began + limit
		}
		t := b.round.tally()
		if t.None > 0 {
			return askSilent, never
		}
		b.heal(fmt.Sprintf("synthetic request passed, and users had %d good and %d bad trials within %s", t.Good, t.Bad, b.config.HalfOpen.Timeout))

		return askNothing, now
	}
	next := never
	for i := range b.round.trials {
		t := &b.round.trials[i]
		if t.verdict != None {
			continue
		}
		if now >= t.began+limit {
			t.verdict = Bad
		} else {
			next = min(next, t.began+limit)
		}
	}
	if b.decide() {
		return askNothing, now
	}

	return askNothing, next
}

// silenceAnswered hears the synthetic request that was asked about trials without an answer. The lock is held.
func (b *Breaker) silenceAnswered(err error) {
	t := b.round.tally()
	if err == nil {
		b.heal(fmt.Sprintf("synthetic request passed while %d trials take long", t.None))
	} else {
		b.trip(fmt.Sprintf("%d trials without an answer within %s, synthetic request failed: %v", t.None, b.config.HalfOpen.Timeout, err))
	}
}

// tried hears the verdict on a user's trial.
func (b *Breaker) tried(ticket uint32, v Verdict) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == HalfOpen && b.round.settle(ticket, v) {
		b.decide()
	}
}

// decide ends the round as soon as the trials that are left cannot change the outcome. The lock is held.
func (b *Breaker) decide() bool {
	t, want := b.round.tally(), float64(b.config.HalfOpen.Requests)
	switch {
	case float64(t.Bad)/want >= b.config.FailureRate:
		b.trip(fmt.Sprintf("%d of %d trials failed", t.Bad, b.config.HalfOpen.Requests))
	case (want-float64(t.Good))/want < b.config.FailureRate:
		b.heal(fmt.Sprintf("%d of %d trials passed", t.Good, b.config.HalfOpen.Requests))
	default:
		return false
	}

	return true
}
