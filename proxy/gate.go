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
	// Concurrency says how many requests are let through at once.
	Concurrency ConcurrencyConfig
	// WhileOpen is what the gate does while the pod is unhealthy.
	WhileOpen circuit.WhileOpen
	// RetryAfter is when a refused caller should come back, from the plan's measured progress. Nil or 0 means not known.
	RetryAfter func() time.Duration
	// Remaining is for how long the gate will go on to hold, by what the plan has measured. Nil or 0 means that nobody can say. It is called under no lock of the gate's.
	Remaining func() time.Duration
	// Released is called once after each opening with requests held, when all who waited have been answered or have left. Nil is nobody.
	// It is called under no lock of the gate's.
	Released func()
	// Held is called for each request that begins to be held, under the gate's lock: it must be quick and must not call back. Nil is nobody.
	Held func()
	// Logger gets one line for each change of the gate. Nil is silent.
	Logger *slog.Logger
}

// Gate is the turnstile in front of the backend. All its methods may be called concurrently.
type Gate struct {
	position atomic.Int32 // a Mode, and [limitedBit]; the only thing that a request looks at while the gate passes without a limit
	inFlight atomic.Int64 // exchanges with the backend, whatever the mode
	settings GateSettings
	budget   budget
	logger   *slog.Logger

	mu         sync.Mutex
	queue      queue
	ramp       ramp
	totals     [len(outcomes)]uint64
	longest    time.Duration // of all holds that ended
	timer      *time.Timer
	alarm      time.Time // when timer fires; zero when it is not set
	served     bool      // the pod was ready once
	refusing   Reason    // why, while Refusing
	refuseHeld bool      // draining: what would have to be held is refused
	backlog    backlog
	tempo      tempo
}

// limitedBit is in the position of a gate that passes with a concurrency limit in force.
const limitedBit = 1 << 3

// outcomes gives the number of outcomes to the compiler; a test compares it with [OutcomeValues].
var outcomes = [10]struct{}{}

// NewGate returns a gate that holds.
func NewGate(settings GateSettings) *Gate {
	g := &Gate{settings: settings, logger: settings.Logger}
	if g.logger == nil {
		g.logger = slog.New(slog.DiscardHandler)
	}
	g.budget.limit.Store(settings.Memory)
	g.position.Store(int32(Holding))
	g.ramp.limit(settings.Concurrency.Limit, settings.Concurrency.Ramp.Start)

	return g
}

// Configure puts other bounds in force. Requests that are held already keep the deadline that they have, and those that are under way stay under way:
// a lower limit is kept to once enough of them have ended, and those that were let through without any limit do not count against a new one.
func (g *Gate) Configure(hold HoldConfig, memory int64, concurrency ConcurrencyConfig) {
	g.mu.Lock()
	defer g.unlock()
	limit := g.settings.Concurrency.Limit
	g.settings.Hold, g.settings.Concurrency = hold, concurrency
	g.budget.limit.Store(memory)
	g.ramp.limit(concurrency.Limit, concurrency.Ramp.Start)
	if concurrency.Limit == limit {
		return
	}
	switch passing := g.Mode() == Passing; {
	case passing && !g.ramp.limited() && g.queue.len() > 0:
		g.move(Ramping) // nobody else is to wait, but not all at once
	case passing && g.ramp.adaptive:
		g.ramp.begin(max(concurrency.Ramp.Start, int(g.inFlight.Load())))
		g.ramp.stamp(time.Now())
		g.move(Passing)
	case passing:
		g.ramp.calm()
		g.move(Passing)
	default:
		g.ramp.permits = g.ramp.bounded(g.ramp.permits)
	}
	g.release()
	g.setAlarm(time.Now())
}

// Mode returns the position of the gate. One that passes as many at once as a concurrency limit allows is passing.
func (g *Gate) Mode() Mode { return Mode(g.position.Load() &^ limitedBit) }

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
		g.mu.Lock()
		g.served = true
		start := g.settings.Concurrency.Ramp.Start
		g.mu.Unlock()
		if !m.From.Serves() {
			g.Ramp(start)
		}
	case health.Draining: // as it was: new requests are still served while the backend is there
	case health.Stopped:
		g.Refuse(Stopping)
	}
}

// Hold makes the gate hold every request from now on.
func (g *Gate) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.move(Holding)
}

// Refuse refuses all who are held, and every request from now on, with reason.
func (g *Gate) Refuse(reason Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusing = reason
	g.move(Refusing)
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
	g.tempo.begin(time.Now())
	g.move(Ramping)
	g.release()
	g.backlog.announce = g.backlog.owed > 0
}

// Drain says what becomes of the requests that are held, and of those that would have to be. Requests that need not be held are served as before.
func (g *Gate) Drain(held HeldPolicy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuseHeld = held == RefuseHeld
	if g.refuseHeld {
		g.dismiss(Drained)
	}
}

// Wait returns once the request may proceed, or with the reason why it may not. The body, which may be nil, is read beside the wait.
// After Proceed the caller must call [Gate.Done] or [Gate.Return] when the exchange has ended: a tunnel or an open stream keeps its permit until then.
// While the gate passes it costs one atomic load, and with a concurrency limit that is not reached one short lock.
func (g *Gate) Wait(ctx context.Context, t *Ticket, body *Body) Outcome {
	if g.position.Load() == int32(Passing) {
		return Proceed
	}

	return g.wait(ctx, t, body)
}

// Good says that the backend has begun a good answer to t's request.
func (g *Gate) Good(t *Ticket) {
	if !t.limited || t.plain {
		return
	}
	g.mu.Lock()
	defer g.unlock()
	g.backlog.leave(t)
	if !g.counts() {
		return
	}
	now := time.Now()
	first := g.queue.first()
	g.ramp.grow(t, now, first != nil && first.returned)
	g.releaseAt(now)
	if g.Mode() == Ramping && ((g.queue.len() == 0 && g.ramp.free()) || g.ramp.found()) {
		g.ramp.calm()
		g.move(Passing)
		g.releaseAt(now)
	}
}

// Busy says that the backend refused t's request because it has too much to do. It says whether the request was limited by a permit, so that sending it later may help.
func (g *Gate) Busy(t *Ticket) (limited bool) {
	if !t.limited {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.ramp.shrink(t, now)
	g.setAlarm(now)

	return true
}

// Done says that t's exchange has ended: its permit, if it had one, goes to the next in line. It is idempotent.
func (g *Gate) Done(t *Ticket) {
	if !t.limited {
		return
	}
	g.mu.Lock()
	defer g.unlock()
	g.backlog.leave(t)
	g.ramp.take(t)
	g.release()
}

// Return says that t's request was not taken by the backend: at its next wait it stands at the head of the line, and what was held before counts.
// The request arrived at the time given.
func (g *Gate) Return(t *Ticket, arrived time.Time) {
	g.mu.Lock()
	defer g.unlock()
	g.takeBack(t, arrived)
	g.release()
}

// NotAllowed says that the breaker did not allow t's request: it goes back to the head of the line, and nobody else is let go before a good answer.
func (g *Gate) NotAllowed(t *Ticket, arrived time.Time) {
	g.mu.Lock()
	defer g.unlock()
	g.takeBack(t, arrived)
	g.ramp.permits = max(1, min(g.ramp.permits, g.ramp.out.n))
}

// takeBack takes t's permit, if it had one, and makes it stand at the head of the line at its next wait. The caller holds the lock.
func (g *Gate) takeBack(t *Ticket, arrived time.Time) {
	g.backlog.leave(t)
	g.ramp.take(t)
	t.returned, t.arrived = true, arrived
}

// refusal says why the gate refuses.
func (g *Gate) refusal() Reason {
	g.mu.Lock()
	defer g.mu.Unlock()

	return g.refusing
}

// move puts the gate in a position, which may be the one it is in, and tells the log if it is another. The caller holds the lock.
func (g *Gate) move(to Mode) {
	from, position := g.Mode(), int32(to) //nolint:gosec // 0 to 3
	if to == Passing && g.ramp.limited() {
		position |= limitedBit
	}
	g.position.Store(position)
	if from == to {
		return
	}
	switch to {
	case Holding:
		g.backlog.announce = false
		g.queue.each(g.backlog.arrive) // those who waited for a permit wait for the backend now
	case Refusing:
		g.backlog.announce = false
	case Ramping:
		g.ramp.stamp(time.Now())
	case Passing:
	}
	g.logger.Info("gate moved", "from", from.String(), "to", to.String(), "held", g.queue.len())
}

// counts says whether the gate lets requests through by permits. The caller holds the lock.
func (g *Gate) counts() bool {
	mode := g.Mode()

	return mode == Ramping || (mode == Passing && g.ramp.limited())
}

// remaining returns for how long the gate will go on to hold, 0 when nobody can say.
func (g *Gate) remaining() time.Duration {
	if g.settings.Remaining == nil || g.Mode() != Holding {
		return 0
	}

	return g.settings.Remaining()
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
