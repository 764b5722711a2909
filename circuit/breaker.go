package circuit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// ErrOpen is returned by [Breaker.Allow] while the breaker is open.
var ErrOpen = errors.New("circuit breaker is open")

// ErrNoSynthetic is what [Settings.Synthetic] returns, by [errors.Is], when it turns out that none can be made. Until the backend is lost the breaker goes on as without it.
var ErrNoSynthetic = errors.New("no synthetic request is possible")

// Settings is what a Breaker is made from.
type Settings struct {
	// Config holds the thresholds. Values that make no sense are taken from [DefaultConfig]; a stalled_after of 0 switches the stalled rule off.
	Config

	// Synthetic sends one real inference and says whether it was answered well. It must return when its context ends; one that
	// does not is left behind. Nil: none is possible, so the rate alone decides, and users are the trials.
	Synthetic func(ctx context.Context) error
	// SyntheticTimeout is asked before each confirmation; nil: 5 s. A trial has half_open.timeout instead.
	SyntheticTimeout func() time.Duration
	// Moved hears each change of the state, but for those that Lost causes.
	Moved func(from, to State, reason string)
	// UsersFailing hears that the failure rate is bad while a synthetic request passes (a condition, no change of the state), and
	// later that this is over. It is over as well when the breaker opens, and is told so before Moved.
	UsersFailing func(on bool, text string)
	// Logger hears changes of the state. Nil is silent.
	Logger *slog.Logger
}

// Breaker decides whether the backend may be called, and learns from each verdict. All methods may be called concurrently, and none waits.
//
// Moved and UsersFailing are called in order, outside every lock, from the goroutine of [Breaker.Run]; they may call the Breaker.
//
// The three states belong to a gobreaker two-step breaker, which is fed with nothing but decisions: one call is one decision.
// Verdicts go into a window of our own, since gobreaker drops those on calls longer than its interval; an unfinished trial would
// wedge it, so a whole half-open round is one call of it, whose end we guarantee; its timeout is a nanosecond, so that it turns
// half-open when our back-off says so and not when a user happens to come; and an operator's "closed" is a new one.
type Breaker struct {
	config       Config
	window       window
	flights      flights
	blunt        atomic.Bool // no synthetic request is possible, as it turned out
	epoch        time.Time   // all times are spans since then: reading a monotonic clock alone is half as dear
	pulse        pulse
	finished     atomic.Int64  // when user work was last seen to end, roughly
	word         atomic.Uint64 // era and state, for Allow
	doubt        atomic.Int32  // a doubt; written under mu
	wakeup       chan struct{}
	running      atomic.Bool
	synthetic    func(ctx context.Context) error
	timeout      func() time.Duration
	moved        func(from, to State, reason string)
	usersFailing func(on bool, text string)
	logger       *slog.Logger
	stalledAfter time.Duration

	mu       sync.Mutex
	owner    *gobreaker.TwoStepCircuitBreaker[struct{}]
	state    State
	since    time.Time
	reason   string
	forced   bool
	era      uint32
	eraStart time.Duration
	moves    uint64 // counts whatever makes the answer to an earlier question stale
	backoff  backoff
	round    round
	stall    stall
	recheck  recheck
	notices  []notice
}

// New returns a closed breaker. It does nothing by itself until Run is called.
func New(s Settings) *Breaker {
	b := &Breaker{
		config:       sensible(s.Config),
		epoch:        time.Now(),
		wakeup:       make(chan struct{}, 1),
		synthetic:    s.Synthetic,
		timeout:      s.SyntheticTimeout,
		moved:        s.Moved,
		usersFailing: s.UsersFailing,
		logger:       s.Logger,
		since:        time.Now(),
		reason:       "nothing has happened yet",
	}
	if b.timeout == nil {
		b.timeout = func() time.Duration { return defaultSyntheticTimeout }
	}
	if b.moved == nil {
		b.moved = func(State, State, string) {}
	}
	if b.usersFailing == nil {
		b.usersFailing = func(bool, string) {}
	}
	if b.logger == nil {
		b.logger = slog.New(slog.DiscardHandler)
	}
	b.stalledAfter = b.config.StalledAfter.Std()
	b.pulse.grain = max(b.stalledAfter/pulsesPerStall, time.Millisecond)
	b.backoff = newBackoff(b.config.OpenFor.Std())
	b.window.width = bucketWidth(b.config.Window.Std())
	b.flights.newest.Store(newTable(firstSlots, nil))
	b.owner = b.newOwner()

	return b
}

// sensible replaces what would divide by nothing or never end. Telling the user is the business of whoever reads the file.
func sensible(c Config) Config {
	d := DefaultConfig()
	c.Window = positive(c.Window, d.Window)
	c.MinRequests = positive(c.MinRequests, d.MinRequests)
	c.FailureRate = positive(c.FailureRate, d.FailureRate)
	c.OpenFor = positive(c.OpenFor, d.OpenFor)
	c.HalfOpen.Requests = positive(c.HalfOpen.Requests, d.HalfOpen.Requests)
	c.HalfOpen.Timeout = positive(c.HalfOpen.Timeout, d.HalfOpen.Timeout)

	return c
}

func positive[T ~int | ~int64 | ~float64](v, otherwise T) T {
	if v > 0 {
		return v
	}

	return otherwise
}

// Allow is AllowShape for a request whose shape is not known.
func (b *Breaker) Allow() (Exchange, error) { return b.AllowShape(0) }

// AllowShape begins an exchange, or says [ErrOpen]. Every exchange must be ended.
//
// Half-open lets all through: how many come at once is the gate's business, which ramps up from half_open.requests, and no user
// is failed here for being one too many. The first ones are the trials; the rest have a part in the window only.
func (b *Breaker) AllowShape(shape Shape) (Exchange, error) {
	word := b.word.Load()
	if State(word&3) == Closed {
		s, id := b.flights.take(b.roughly())
		s.setShape(shape)

		return Exchange{b: b, slot: s, id: id, era: uint32(word >> 2)}, nil //nolint:gosec // what publish put there
	}

	if State(word&3) == Open {
		return Exchange{}, ErrOpen
	}

	return b.allowTried(shape)
}

// allowTried is AllowShape when the breaker was half-open a moment ago.
func (b *Breaker) allowTried(shape Shape) (Exchange, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Open {
		return Exchange{}, ErrOpen
	}
	now := b.now()
	s, id := b.flights.take(b.roughly())
	s.setShape(shape)
	e := Exchange{b: b, slot: s, id: id, era: b.era}
	if b.state == HalfOpen {
		e.ticket = b.round.admit(b.config.HalfOpen.Requests, now)
		if e.ticket != 0 && !b.syntheticTrials() {
			b.wake() // a deadline that Run does not know
		}
	}

	return e, nil
}

// now is the time since the breaker was made.
func (b *Breaker) now() time.Duration { return time.Since(b.epoch) }

// roughly is now, or at most a grain of the pulse earlier.
func (b *Breaker) roughly() time.Duration {
	if at := b.pulse.last(); at != 0 {
		return at
	}

	return b.now()
}
