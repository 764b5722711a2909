package proxy

import (
	"context"
	"time"
)

// wait is the part of [Gate.Wait] for a gate that does not pass.
func (g *Gate) wait(ctx context.Context, t *Ticket, body *Body) Outcome {
	if g.Mode() == Passing && g.pass(t) {
		return Proceed
	}
	if outcome, decided := g.enter(t, body); decided {
		return outcome
	}
	if body != nil {
		body.pump(g, t) //nolint:contextcheck // it looks at the connection of its own request
	}
	select {
	case outcome := <-t.wake:
		return outcome
	case <-ctx.Done():
		return g.abandon(t)
	}
}

// pass lets t through a gate that passes under a fixed limit, if the limit is not reached. That is the common case, so it is the short one.
func (g *Gate) pass(t *Ticket) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.Mode() != Passing || !g.ramp.resting() || !g.ramp.free() || g.queue.len() > 0 {
		return false
	}
	g.ramp.give(t, time.Time{})

	return true
}

// enter puts t in line, or says at once what becomes of it.
func (g *Gate) enter(t *Ticket, body *Body) (outcome Outcome, decided bool) {
	remaining := g.remaining()
	g.mu.Lock()
	defer g.unlock()
	now := time.Now()
	outcome, decided = g.admit(t, body, now, remaining)
	if decided {
		if outcome != Proceed {
			g.backlog.leave(t)
			g.totals[outcome]++
		}

		return outcome, true
	}
	if t.wake == nil {
		t.wake = make(chan Outcome, 1)
	}
	t.body, t.since = body, now
	if g.Mode() != Passing {
		g.backlog.arrive(t)
		if g.settings.Held != nil {
			g.settings.Held()
		}
	}
	if g.queue.len() == 0 {
		g.tempo.begin(now)
	}
	g.queue.push(t, body == nil || body.settled())
	g.releaseAt(now)
	g.setAlarm(now)

	return Proceed, false
}

// admit decides whether t is to be held, where remaining is for how long the gate will go on to hold, 0 when nobody can say.
func (g *Gate) admit(t *Ticket, body *Body, now time.Time, remaining time.Duration) (outcome Outcome, decided bool) {
	counts := g.counts()
	if counts && g.queue.len() == 0 && !g.ramp.free() {
		g.recover(now)
	}
	switch mode := g.Mode(); {
	case mode == Passing && !counts:
		return Proceed, true
	case mode == Refusing:
		return Refused, true
	case counts && g.queue.len() == 0 && g.ramp.free():
		g.ramp.give(t, now)

		return Proceed, true
	case g.refuseHeld:
		return Drained, true
	case g.queue.len() >= g.settings.Hold.MaxRequests:
		return Full, true
	}
	limit := g.settings.Hold.MaxWait.Start.Std()
	if g.served {
		limit = g.settings.Hold.MaxWait.Restart.Std()
	}
	t.deadline = now.Add(limit - t.held)
	t.hurried = !t.expires.IsZero() && t.expires.Before(t.deadline)
	if t.hurried {
		t.deadline = t.expires
	}
	if !t.deadline.After(now) {
		return g.late(t), true
	}
	if g.Mode() == Passing && !t.returned { // a ramp becomes faster, so what was seen says little
		remaining = g.tempo.forecast(g.queue.len(), now)
	}
	if g.settings.Hold.FailFast && t.deadline.Before(now.Add(remaining)) {
		return Hopeless, true
	}
	if body != nil {
		return body.reserve(&g.budget, int64(g.settings.Hold.MaxBody), int64(g.settings.Hold.MaxStreamBody))
	}

	return Proceed, false
}

// abandon takes t, whose client left, out of the line, or its permit back if it was let through at the same moment.
func (g *Gate) abandon(t *Ticket) Outcome {
	g.mu.Lock()
	defer g.unlock()
	if t.place == inLine {
		g.end(t, Gone, time.Now())
	}
	<-t.wake
	g.backlog.leave(t)
	g.ramp.take(t)
	g.release()

	return Gone
}

// bodySettled is called by the pump once a body needs no more reading before its release. An outcome other than Proceed says why t cannot wait any longer.
func (g *Gate) bodySettled(t *Ticket, outcome Outcome) {
	g.mu.Lock()
	defer g.unlock()
	if t.place != inLine {
		return
	}
	if outcome != Proceed {
		g.end(t, outcome, time.Now())

		return
	}
	g.queue.complete(t)
	g.release()
}

// release lets through whom it may. The caller holds the lock.
func (g *Gate) release() {
	if g.queue.len() > 0 {
		g.releaseAt(time.Now())
	}
}

// releaseAt is release for those who know what time it is.
func (g *Gate) releaseAt(now time.Time) {
	if !g.counts() {
		return
	}
	for g.ramp.free() {
		t := g.queue.next()
		if t == nil {
			return
		}
		g.end(t, Proceed, now)
		g.tempo.let(now)
	}
	g.setAlarm(now)
}

// recover lets a limit that has shrunk go back to what it is at rest, when it is time. The caller holds the lock.
func (g *Gate) recover(now time.Time) {
	if g.Mode() == Passing {
		g.ramp.recover(now)
	}
}

// late is how a hold of t ends when its time is up. The caller holds the lock.
func (g *Gate) late(t *Ticket) Outcome {
	switch {
	case t.hurried:
		return Expired
	case g.Mode() == Holding:
		return TimedOut
	default:
		return Crowded
	}
}

// dismiss ends every hold. The caller holds the lock.
func (g *Gate) dismiss(outcome Outcome) {
	now := time.Now()
	for t := g.queue.first(); t != nil; t = g.queue.first() {
		g.end(t, outcome, now)
	}
}

// end ends the hold of t. The caller holds the lock.
func (g *Gate) end(t *Ticket, outcome Outcome, now time.Time) {
	g.queue.remove(t)
	t.held += now.Sub(t.since)
	g.longest = max(g.longest, t.held)
	g.totals[outcome]++
	if outcome == Proceed {
		g.ramp.give(t, now)
	} else {
		g.backlog.leave(t)
	}
	if t.body != nil {
		t.body.release()
	}
	t.wake <- outcome
}

// setAlarm sets the one timer to the next moment at which something must happen by itself. The caller holds the lock.
func (g *Gate) setAlarm(now time.Time) {
	if g.queue.len() == 0 {
		return
	}
	next := g.queue.deadlines[0].deadline
	if oldest := g.ramp.out.first; oldest != nil && g.lapses() {
		next = earlier(next, oldest.granted.Add(patience))
	}
	if at := g.ramp.recovers(); !at.IsZero() && g.Mode() == Passing {
		next = earlier(next, at)
	}
	if !g.alarm.IsZero() && !next.Before(g.alarm) {
		return // it fires earlier, and will be set again then
	}
	g.alarm = next
	if g.timer == nil {
		g.timer = time.AfterFunc(next.Sub(now), g.tick)
	} else {
		g.timer.Reset(next.Sub(now))
	}
}

// tick does what is due.
func (g *Gate) tick() {
	g.mu.Lock()
	defer g.unlock()
	now := time.Now()
	g.alarm = time.Time{}
	for t := g.queue.late(now); t != nil; t = g.queue.late(now) {
		g.end(t, g.late(t), now)
	}
	if g.queue.len() > 0 {
		if g.lapses() {
			g.ramp.lapse(now)
		}
		g.recover(now)
		g.releaseAt(now)
	}
	g.setAlarm(now)
}

// lapses says whether permits that are out for too long are written off. The caller holds the lock.
func (g *Gate) lapses() bool { return g.Mode() == Ramping || (g.Mode() == Passing && g.ramp.adaptive) }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}

	return a
}
