package circuit

// Lost says that the backend is gone: refused, closed or restarted. What is known of it goes; the state is closed, since a backend
// that is not there is no sick one, and the gate is what holds. No Moved is called, and those on their way are dropped: the caller
// says what became of the pod, and a late "closed" must not be taken for "warm". A state that the operator forced stays.
func (b *Breaker) Lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.calm("the backend is gone")
	b.blunt.Store(false) // the next one may be another server
	if !b.forced && b.state != Closed {
		b.renew("the backend was lost", now)
	}
	b.dropMoves()
	b.begin(now, true)
	b.backoff.reset(now)
	b.wake()
}

// Trip opens the breaker on evidence that it cannot see, such as health checks that fail and were confirmed. It heals as it always does.
// It does nothing unless the breaker is closed and not forced.
func (b *Breaker) Trip(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != Closed || b.forced {
		return
	}
	b.trip(reason)
	b.wake()
}

// Force pins the breaker open or closed until Reset, whatever the verdicts say. HalfOpen pins nothing: it ends the wait of an open
// breaker, so that it is tried now.
func (b *Breaker) Force(to State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.moves++
	switch to {
	case Open:
		b.forced = true
		if b.state == Open {
			b.reason = "forced open by the operator"
		} else {
			b.trip("forced open by the operator")
		}
	case Closed:
		b.forced = true
		b.calm("forced closed by the operator")
		b.renew("forced closed by the operator", now)
		b.begin(now, false)
	case HalfOpen:
		b.forced = false
		b.backoff.trial = now
	}
	b.wake()
}

// Reset undoes Force, closes the breaker, and forgets every verdict.
func (b *Breaker) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.forced = false
	b.calm("reset by the operator")
	b.renew("reset by the operator", now)
	b.begin(now, false)
	b.backoff.reset(now)
	b.wake()
}
