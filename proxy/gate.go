package proxy

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/health"
)

// GateSettings is what a gate is made of.
type GateSettings struct {
	// Hold bounds the requests that wait.
	Hold HoldConfig
	// Memory is the resolved budget, in bytes, for all held bodies together.
	Memory int64
	// Concurrency shapes the release.
	Concurrency ConcurrencyConfig
	// WhileOpen is what the gate does while the pod is unhealthy.
	WhileOpen circuit.WhileOpen
	// RetryAfter is when a refused caller should come back, from the plan's measured progress. Nil or 0 means not known.
	RetryAfter func() time.Duration
	// Logger gets one line for each change of the gate. Nil is silent.
	Logger *slog.Logger
}

// Gate is the turnstile in front of the backend. All its methods may be called concurrently.
type Gate struct {
	mode     atomic.Int32 // a Mode; the only thing that a request looks at while the gate passes
	inFlight atomic.Int64 // exchanges with the backend, whatever the mode
	settings GateSettings
	budget   budget
	logger   *slog.Logger

	mu       sync.Mutex
	queue    queue
	ramp     ramp
	totals   [len(outcomes)]uint64
	longest  time.Duration // of all holds that ended
	timer    *time.Timer
	alarm    time.Time // when timer fires; zero when it is not set
	served   bool      // the pod was ready once
	refusing Reason    // why, while Refusing
	refuse   bool      // draining: what would have to be held is refused
}

// outcomes gives the number of outcomes to the compiler; a test compares it with [OutcomeValues].
var outcomes = [7]struct{}{}

// GateSnapshot is the state of a gate at one moment.
type GateSnapshot struct {
	Mode Mode `json:"mode"`
	// Permits is how many requests may be in flight, and Permitted how many of those are; meaningful while ramping.
	Permits   int `json:"permits"`
	Permitted int `json:"permitted"`
	// InFlight is the number of exchanges under way with the backend, users' requests only.
	InFlight int64 `json:"in_flight"`
	Held     int   `json:"held"`
	// HeldBytes is the memory reserved for bodies, of HeldBytesLimit.
	HeldBytes      int64 `json:"held_bytes"`
	HeldBytesLimit int64 `json:"held_bytes_limit"`
	// LongestHeld is the age of the oldest hold now, LongestHold the longest one that has ended.
	LongestHeld time.Duration `json:"longest_held_ns"`
	LongestHold time.Duration `json:"longest_hold_ns"`
	// Outcomes counts how the waits ended. Requests that came while the gate was passing did not wait and are not counted.
	Outcomes map[Outcome]uint64 `json:"outcomes"`
	// Draining is true once held requests are refused because of a drain.
	Draining bool `json:"draining"`
}

// NewGate returns a gate that holds.
func NewGate(settings GateSettings) *Gate {
	g := &Gate{settings: settings, logger: settings.Logger}
	if g.logger == nil {
		g.logger = slog.New(slog.DiscardHandler)
	}
	g.budget.limit = settings.Memory
	g.mode.Store(int32(Holding))

	return g
}

// Mode returns the position of the gate.
func (g *Gate) Mode() Mode { return Mode(g.mode.Load()) }

// Follow moves the gate as the pod's state demands.
func (g *Gate) Follow(m health.Move) {
	switch m.To {
	case health.Starting, health.Idle, health.Warming, health.Cold:
		g.Hold()
	case health.Unhealthy:
		if g.settings.WhileOpen == circuit.Hold {
			g.Hold()
		} else {
			g.Refuse(BreakerOpen)
		}
	case health.Ready, health.Degraded:
		if !m.From.Serves() {
			g.Ramp(g.settings.Concurrency.Ramp.Start)
		}
		g.mu.Lock()
		g.served = true
		g.mu.Unlock()
	case health.Draining: // as it was: new requests are still served while the backend is there
	case health.Stopped:
		g.Refuse(Stopping)
	}
}

// Hold makes the gate hold every request from now on.
func (g *Gate) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn(Holding)
}

// Refuse refuses all who are held, and every request from now on, with reason.
func (g *Gate) Refuse(reason Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusing = reason
	g.turn(Refusing)
	g.dismiss(Refused)
}

// Ramp opens the gate for n requests at once and more with each good answer, until nobody waits. A gate that is open already stays as it is.
func (g *Gate) Ramp(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if mode := g.Mode(); mode == Ramping || mode == Passing {
		return
	}
	g.ramp.begin(n)
	g.turn(Ramping)
	g.release()
}

// Drain says what becomes of the requests that are held, and of those that would have to be. Requests that need not be held are served as before.
func (g *Gate) Drain(held HeldPolicy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse = held == RefuseHeld
	if g.refuse {
		g.dismiss(Drained)
	}
}

// Snapshot returns the state of the gate.
func (g *Gate) Snapshot() GateSnapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	s := GateSnapshot{
		Mode: g.Mode(), Permits: g.ramp.permits, Permitted: g.ramp.out.n, InFlight: g.inFlight.Load(),
		Held: g.queue.len(), HeldBytes: g.budget.used.Load(), HeldBytesLimit: g.budget.limit,
		LongestHeld: g.queue.longest(now), LongestHold: g.longest,
		Outcomes: make(map[Outcome]uint64, len(g.totals)), Draining: g.refuse,
	}
	for outcome, n := range g.totals {
		s.Outcomes[Outcome(outcome)] = n
	}

	return s
}

// Wait returns once the request may proceed, or with the reason why it may not. The body, which may be nil, is read beside the wait.
// After Proceed the caller must call [Gate.Done] or [Gate.Return] when the exchange has ended. While the gate passes it costs one atomic load.
func (g *Gate) Wait(ctx context.Context, t *Ticket, body *Body) Outcome {
	if g.Mode() == Passing {
		return Proceed
	}

	return g.wait(ctx, t, body)
}

func (g *Gate) wait(ctx context.Context, t *Ticket, body *Body) Outcome {
	if outcome, decided := g.enter(t, body); decided {
		return outcome
	}
	if body != nil {
		body.pump(g, t)
	}
	select {
	case outcome := <-t.wake:
		return outcome
	case <-ctx.Done():
		return g.abandon(t)
	}
}

// enter puts t in line, or says at once what becomes of it.
func (g *Gate) enter(t *Ticket, body *Body) (outcome Outcome, decided bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	outcome, decided = g.admit(t, body, now)
	if decided {
		if outcome != Proceed {
			g.totals[outcome]++
		}

		return outcome, true
	}
	if t.wake == nil {
		t.wake = make(chan Outcome, 1)
	}
	t.body, t.since = body, now
	g.queue.push(t, body == nil || body.settled())
	if g.Mode() == Ramping {
		g.release()
	}
	g.setAlarm(now)

	return Proceed, false
}

// admit decides whether t is to be held.
func (g *Gate) admit(t *Ticket, body *Body, now time.Time) (outcome Outcome, decided bool) {
	switch mode := g.Mode(); {
	case mode == Passing:
		return Proceed, true
	case mode == Refusing:
		return Refused, true
	case mode == Ramping && g.queue.len() == 0 && g.ramp.free():
		g.ramp.give(t, now)

		return Proceed, true
	case g.refuse:
		return Drained, true
	case g.queue.len() >= g.settings.Hold.MaxRequests:
		return Full, true
	}
	limit := g.settings.Hold.MaxWait.Start.Std()
	if g.served {
		limit = g.settings.Hold.MaxWait.Restart.Std()
	}
	t.deadline = now.Add(limit - t.held)
	if !t.deadline.After(now) {
		return TimedOut, true
	}
	if body != nil {
		return body.reserve(&g.budget, int64(g.settings.Hold.MaxBody), int64(g.settings.Hold.MaxStreamBody))
	}

	return Proceed, false
}

// abandon takes t, whose client left, out of the line, or its permit back if it was let through at the same moment.
func (g *Gate) abandon(t *Ticket) Outcome {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.place == inLine {
		g.end(t, Gone, time.Now())
	}
	<-t.wake
	g.ramp.take(t)
	g.release()

	return Gone
}

// bodySettled is called by the pump once a body needs no more reading before its release, or cannot be read any further.
func (g *Gate) bodySettled(t *Ticket, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.place != inLine {
		return
	}
	if err != nil {
		g.end(t, Gone, time.Now())

		return
	}
	g.queue.complete(t)
	g.release()
}

// Good says that the backend has begun a good answer to t's request.
func (g *Gate) Good(t *Ticket) {
	if !t.limited {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.Mode() != Ramping {
		return
	}
	first := g.queue.first()
	g.ramp.grow(t, time.Now(), first != nil && first.returned)
	g.release()
	if g.queue.len() == 0 && g.ramp.free() {
		g.turn(Passing)
	}
}

// Busy says that the backend refused t's request because it has too much to do. It says whether the request was limited by a permit, so that sending it later may help.
func (g *Gate) Busy(t *Ticket) (limited bool) {
	if !t.limited {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ramp.shrink(t)

	return true
}

// Done says that t's exchange has ended: its permit, if it had one, goes to the next in line. It is idempotent.
func (g *Gate) Done(t *Ticket) {
	if !t.limited {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ramp.take(t)
	g.release()
}

// Return says that t's request was not taken by the backend: at its next wait it stands at the head of the line, and what was held before counts.
// The request arrived at the time given.
func (g *Gate) Return(t *Ticket, arrived time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ramp.take(t)
	t.returned, t.arrived = true, arrived
	g.release()
}

// Full says that the breaker let no more trials through: nobody else is let go before a good answer, and t's request goes back to the head of the line.
func (g *Gate) Full(t *Ticket, arrived time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ramp.take(t)
	g.ramp.permits = max(1, min(g.ramp.permits, g.ramp.out.n))
	t.returned, t.arrived = true, arrived
}

// refusal says why the gate refuses.
func (g *Gate) refusal() Reason {
	g.mu.Lock()
	defer g.mu.Unlock()

	return g.refusing
}

// turn moves the gate. The caller holds the lock.
func (g *Gate) turn(to Mode) {
	from := g.Mode()
	if from == to {
		return
	}
	g.mode.Store(int32(to))
	g.logger.Info("gate moved", "from", from.String(), "to", to.String(), "held", g.queue.len())
}

// release lets through whom it may. The caller holds the lock.
func (g *Gate) release() {
	if g.Mode() != Ramping {
		return
	}
	now := time.Now()
	for g.ramp.free() {
		t := g.queue.next()
		if t == nil {
			return
		}
		g.end(t, Proceed, now)
	}
	g.setAlarm(now)
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
	if oldest := g.ramp.out.first; oldest != nil && g.Mode() == Ramping && oldest.granted.Add(patience).Before(next) {
		next = oldest.granted.Add(patience)
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
	defer g.mu.Unlock()
	now := time.Now()
	g.alarm = time.Time{}
	for t := g.queue.late(now); t != nil; t = g.queue.late(now) {
		g.end(t, TimedOut, now)
	}
	if g.Mode() == Ramping && g.queue.len() > 0 && g.ramp.lapse(now) {
		g.release()
	}
	g.setAlarm(now)
}

// retryAfter returns when a refused caller should come back: whole seconds, at least 1, and 5 when nothing is known.
func (g *Gate) retryAfter() time.Duration {
	var d time.Duration
	if g.settings.RetryAfter != nil {
		d = g.settings.RetryAfter()
	}
	if d <= 0 {
		return 5 * time.Second
	}

	return (d + time.Second - 1).Truncate(time.Second)
}
