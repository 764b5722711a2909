package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// settled is how long a connection must have lived for its end to be answered by dialling again at once. It is shorter than the idle limit of any server we know (uvicorn: 5 s).
	settled = time.Second
	// firstPause is the wait before dialling again when the server closed at once; it doubles up to the interval.
	firstPause = time.Millisecond
	// lookSpacing is the least time between two looks asked for by Look.
	lookSpacing = 50 * time.Millisecond
)

// WatchSettings is what a Watch is made of.
type WatchSettings struct {
	// Dial connects to the backend and respects its context. nil: no connection is kept, and only the identity and the check tell.
	// Leave it out for servers that serve one connection at a time, which an idle connection would occupy.
	Dial func(ctx context.Context) (net.Conn, error)
	// Identity says which process listens, "" if that is unknown; see [ListenerIdentity]. An element of its comma-separated list that was not there before is a restart. nil: unknown.
	Identity func() string
	// Check asks the backend's endpoint; nil means it says ready. With none, being able to connect is the check.
	Check func(ctx context.Context) error
	// Interval is the time between two checks; 0 means 5s.
	Interval time.Duration
	// Timeout limits one check and one dial; 0 means 2s.
	Timeout time.Duration
	// FailuresToReport is how many checks in a row must fail before that is reported; 0 means 3.
	FailuresToReport int
	// Report is told what is seen, one event at a time. No Report is made after Run has returned.
	Report func(WatchEvent)
	// Logger gets what is not worth an event, at debug level. nil is silent.
	Logger *slog.Logger
}

// Watch observes that a backend which is up stays so: over a connection kept open to it, whose end is noticed within a millisecond; by the identity of its listener; and by a check each interval.
//
// That the connection ends is no evidence by itself: servers close idle ones. It is a reason to look at once. Only a refused connection means that the backend is lost,
// and only another identity, or being back after it was lost, that it was restarted. A timeout or any other error of dialling may as well be a busy backend or a fault of this host,
// and is left to the check.
type Watch struct {
	settings WatchSettings
	asked    chan struct{}

	mu       sync.Mutex // guards what follows, and makes reports one at a time
	identity string     // the last one that was known
	lost     bool       // reported, and not back yet
	failures int        // checks in a row
}

// NewWatch returns a watch that begins with Run.
func NewWatch(settings WatchSettings) *Watch {
	if settings.Interval <= 0 {
		settings.Interval = 5 * time.Second
	}
	if settings.Timeout <= 0 {
		settings.Timeout = 2 * time.Second
	}
	if settings.FailuresToReport <= 0 {
		settings.FailuresToReport = 3
	}
	if settings.Identity == nil {
		settings.Identity = unknown
	}
	if settings.Report == nil {
		settings.Report = func(WatchEvent) {}
	}
	if settings.Logger == nil {
		settings.Logger = slog.New(slog.DiscardHandler)
	}

	return &Watch{settings: settings, asked: make(chan struct{}, 1)}
}

// Run watches until ctx ends, and returns its cause. It is called only while the backend is up, may be called again later, but not twice at a time.
// The process that listens when it begins is the one that later ones are compared with.
func (w *Watch) Run(ctx context.Context) error {
	w.mu.Lock()
	w.identity, w.lost, w.failures = w.settings.Identity(), false, 0
	w.mu.Unlock()
	var parts sync.WaitGroup
	parts.Go(func() { w.look(ctx) })
	parts.Go(func() { w.check(ctx) })
	if w.settings.Dial != nil {
		parts.Go(func() { w.stayConnected(ctx) })
	}
	parts.Wait()

	return context.Cause(ctx)
}

// Look asks for a look at the backend now, because something about it is suspicious. It never waits, and may be called by anybody at any rate.
func (w *Watch) Look() {
	select {
	case w.asked <- struct{}{}:
	default: // one is asked for already
	}
}

// look compares the identity each interval and whenever asked to, and sees whether the backend still accepts connections where there is a doubt about it.
func (w *Watch) look(ctx context.Context) {
	ticker := time.NewTicker(w.settings.Interval)
	defer ticker.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.asked:
			asked = true
		}
		known := w.compareIdentity(ctx, "another process listens")
		if asked || !known || w.isLost() {
			_ = w.reach(ctx) // reports what matters by itself
		}
		if asked && !pause(ctx, lookSpacing) {
			return
		}
	}
}

// compareIdentity reports a restart if another process listens than before. It returns false if one was known and none is found now: the listener may be gone while old connections live on.
func (w *Watch) compareIdentity(ctx context.Context, cause string) (known bool) {
	now := w.settings.Identity()
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.identity
	if now == "" {
		return before == ""
	}
	w.identity = now
	if before != "" && hasNew(before, now) {
		w.lost = false
		w.report(ctx, WatchEvent{Kind: Restarted, Cause: fmt.Errorf("%s: identity was %s and is %s", cause, before, now)})
	}

	return true
}

// hasNew tells whether the second of two comma-separated lists has an element that the first has not.
func hasNew(before, now string) bool {
	for element := range strings.SplitSeq(now, ",") {
		if !strings.Contains(","+before+",", ","+element+",") {
			return true
		}
	}

	return false
}

// check asks the endpoint each interval and counts.
func (w *Watch) check(ctx context.Context) {
	ask := w.settings.Check
	if ask == nil {
		ask = w.reach
	}
	ticker := time.NewTicker(w.settings.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		limited, cancel := context.WithTimeout(ctx, w.settings.Timeout)
		err := ask(limited)
		cancel()
		w.count(ctx, err)
	}
}

// count takes the outcome of one check.
func (w *Watch) count(ctx context.Context, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		if w.failures >= w.settings.FailuresToReport {
			w.report(ctx, WatchEvent{Kind: CheckPassed})
		}
		w.failures = 0

		return
	}
	w.failures++
	w.settings.Logger.Debug("check failed", "error", err, "in_a_row", w.failures)
	if w.failures >= w.settings.FailuresToReport {
		w.report(ctx, WatchEvent{Kind: CheckFailed, Cause: err, InARow: w.failures})
	}
}

// reach sees whether the backend accepts a connection.
func (w *Watch) reach(ctx context.Context) error {
	if w.settings.Dial == nil {
		return nil
	}
	connection, err := w.dial(ctx)
	if err != nil {
		return err
	}
	w.compareIdentity(ctx, "another process accepts connections")

	return connection.Close()
}

// dial connects, and takes note of what that says about the backend.
func (w *Watch) dial(ctx context.Context) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, w.settings.Timeout)
	defer cancel()
	connection, err := w.settings.Dial(limited)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && w.lost:
		w.lost = false
		w.identity = w.settings.Identity()
		w.report(ctx, WatchEvent{Kind: Restarted, Cause: errors.New("connections are accepted again")})
	case err != nil && !w.lost && nobodyListens(err):
		w.lost = true
		w.report(ctx, WatchEvent{Kind: Lost, Cause: err})
	case err != nil:
		w.settings.Logger.Debug("dialling failed", "error", err)
	}

	return connection, err
}

// nobodyListens tells whether an error of dialling proves that there is no listener: refused, or the file of a Unix socket is not there.
func nobodyListens(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)
}

func (w *Watch) isLost() bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.lost
}

// report hands an event over unless the watch is ending. The caller holds the lock.
func (w *Watch) report(ctx context.Context, event WatchEvent) {
	if ctx.Err() == nil {
		w.settings.Report(event)
	}
}

// pause waits, and returns false if ctx ended instead.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
