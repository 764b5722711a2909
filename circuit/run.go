package circuit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	defaultSyntheticTimeout = 5 * time.Second
	// lookAtLeast bounds the sleep of Run, should a reason to wake up ever be missed.
	lookAtLeast = time.Minute
	// leaveWithin is how long Run waits, at its end, for a synthetic request whose context has ended.
	leaveWithin = time.Second

	never time.Duration = math.MaxInt64
)

// question is why a synthetic request is sent. Only one is under way at a time.
type question int

const (
	askNothing question = iota
	// askConfirmed: the rate is bad.
	askConfirmed
	// askStalled: nothing moves.
	askStalled
	// askTried: an open breaker is tried.
	askTried
	// askSilent: trials have no answer at the end of half_open.timeout.
	askSilent
)

// inquiry is a synthetic request under way.
type inquiry struct {
	question question
	moves    uint64 // the answer is stale when the breaker has moved on
	asked    time.Duration
	answer   chan error
	cancel   context.CancelFunc
	ended    <-chan struct{}
	timeout  time.Duration
}

// Run tries an open breaker, confirms suspicions, watches for silence, and calls Moved and UsersFailing, until ctx ends; then it
// returns nil. Without Run a breaker still opens bluntly; it asks nothing, heals never, and keeps at most 16 calls for later, the
// oldest moves folded into one.
func (b *Breaker) Run(ctx context.Context) error {
	if !b.running.CompareAndSwap(false, true) {
		return errors.New("run circuit breaker: already running")
	}
	defer b.running.Store(false)
	if b.stalledAfter > 0 {
		defer b.pulse.start(b.now)()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var open *inquiry
	for {
		b.deliver(ctx)
		asked, next := b.look(open)
		if asked != nil {
			open = asked
			b.send(ctx, open)
		}
		timer.Reset(min(next, lookAtLeast))
		var answer error
		answered := false
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-b.wakeup:
		case answer = <-open.answers():
			answered = true
		case <-open.ends():
			answer, answered = open.overdue(), ctx.Err() == nil
		}
		if ctx.Err() != nil {
			// An answer that comes now says that we end, not that the backend is sick.
			if !answered {
				open.leave()
			}

			return nil
		}
		if answered {
			b.hear(open, answer)
			open = nil
		}
	}
}

// look does what is due, and returns the question to ask, if any, and how long nothing else is due.
func (b *Breaker) look(open *inquiry) (*inquiry, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if open != nil {
		if open.moves != b.moves {
			open.cancel() // nobody wants to know any more
		}

		return nil, lookAtLeast // its end wakes us; nothing else is asked meanwhile
	}
	now := b.now()
	q, next := b.due(now)
	if q == askNothing {
		return nil, max(next-now, 0)
	}

	return &inquiry{question: q, moves: b.moves, asked: now}, lookAtLeast
}

// due says which question is due, else when to look again. The lock is held.
func (b *Breaker) due(now time.Duration) (question, time.Duration) {
	switch {
	case b.state == Open:
		return b.lookOpen(now)
	case b.state == HalfOpen:
		return b.lookHalfOpen(now)
	case b.forced:
		return askNothing, never
	}
	q, next := b.lookRate(now)
	if q != askNothing {
		return q, next
	}
	q, at := b.lookStalled(now)

	return q, min(next, at)
}

// send asks the question, in a goroutine that ends with it.
func (b *Breaker) send(ctx context.Context, i *inquiry) {
	i.timeout = positive(b.timeout(), defaultSyntheticTimeout)
	if i.question == askTried {
		// A backend that hangs still must not keep us from asking again soon.
		i.timeout = min(i.timeout, b.config.HalfOpen.Timeout.Std())
	}
	asking, cancel := context.WithTimeout(ctx, i.timeout)
	i.answer, i.cancel, i.ended = make(chan error, 1), cancel, asking.Done()
	go func() { i.answer <- b.synthetic(asking) }()
}

// hear takes the answer to a question, unless the breaker has moved on meanwhile.
func (b *Breaker) hear(i *inquiry, err error) {
	i.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if i.moves != b.moves {
		return
	}
	now := b.now()
	if errors.Is(err, ErrNoSynthetic) {
		b.cannotAsk(i.question, now)

		return
	}
	switch i.question {
	case askConfirmed:
		b.confirmed(err, now)
	case askStalled:
		b.stalledAnswered(err, i.asked, now)
	case askTried:
		b.triedSynthetically(err, now)
	case askSilent:
		b.silenceAnswered(err)
	case askNothing:
	}
}

// cannotAsk goes on without synthetic requests. What was asked is decided by users' work alone: a bad rate opens, everything else is looked at anew. The lock is held.
func (b *Breaker) cannotAsk(asked question, now time.Duration) {
	b.blunt.Store(true)
	if asked == askConfirmed {
		b.trip(b.rateText(b.window.tally(now)) + ", and no synthetic request is possible")
	}
}

func (i *inquiry) answers() <-chan error {
	if i == nil {
		return nil
	}

	return i.answer
}

func (i *inquiry) ends() <-chan struct{} {
	if i == nil {
		return nil
	}

	return i.ended
}

// overdue is the answer when the time is up. One that came with the bell is better.
func (i *inquiry) overdue() error {
	select {
	case err := <-i.answer:
		return err
	default:
		return fmt.Errorf("no answer within %s", i.timeout)
	}
}

// leave waits, within bounds, for a request that is under way when Run ends.
func (i *inquiry) leave() {
	if i == nil {
		return
	}
	i.cancel()
	timer := time.NewTimer(leaveWithin)
	defer timer.Stop()
	select {
	case <-i.answer: //nolint:errcheck // nobody is left who wants to know
	case <-timer.C:
	}
}

// wake makes Run look at once. It never waits.
func (b *Breaker) wake() {
	select {
	case b.wakeup <- struct{}{}:
	default:
	}
}
