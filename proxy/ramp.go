package proxy

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

const (
	// patience is how long a permit may be out, while others wait for one, before it is written off. An answer that takes minutes, or never comes,
	// would otherwise keep everybody behind it until their time is up. A fixed limit writes nothing off: it is a promise.
	patience = 2 * time.Second
	// lateSlack is how much later than twice the fastest an answer may begin before that counts as late: less is the noise of a machine.
	lateSlack = 5 * time.Millisecond
	// quiet is how long after the last sign of overload a limit goes back to what it is at rest, should answers not have brought it there before.
	quiet = 10 * time.Second
)

// ramp counts permits while the gate is ramping, or while it passes with a concurrency limit in force. It is guarded by the gate's lock.
//
// It is TCP's slow start: each good answer adds a permit, so that what is in flight doubles per round trip. A refusal as busy halves it. From the first refusal,
// or the first answer that begins much later than the fastest did, a whole window of good answers adds one: by then a larger window only makes a queue inside the backend.
// A late answer halves nothing, since answers to different questions take different times; under an adaptive limit a window of late answers does, see [pace].
//
// A fixed limit is a ceiling for it. Once the gate passes, it is at the ceiling but for a while after a refusal as busy.
// An adaptive limit is a ramp that never ends.
type ramp struct {
	permits   int  // how many may be out
	ceiling   int  // the fixed limit; 0: none
	rest      int  // what a limit goes back to when all is quiet; 0: there is no limit
	adaptive  bool // the limit finds itself
	given     int  // all who have not come back, those written off included
	out       list // those out, oldest first, without those written off
	good      int  // good answers since the last change
	epoch     uint32
	best      time.Duration // the fastest beginning of an answer
	congested bool
	pressed   bool      // all permits were out since the last change
	shrunk    time.Time // the last sign of overload; zero when there was none, or it is over
	pace      pace
}

// limit puts a concurrency limit in force, or takes it away. Permits that are out stay out: when they are too many, none is given until enough have come back.
func (r *ramp) limit(to units.Auto[int], start int) {
	r.adaptive, r.ceiling = !to.Set, max(0, to.Or(0))
	if r.rest = r.ceiling; r.adaptive {
		r.rest = max(1, start)
	}
}

// limited says whether a concurrency limit is in force.
func (r *ramp) limited() bool { return r.rest > 0 }

// begin starts anew with n permits. Those that are still out from an earlier ramp count against them.
func (r *ramp) begin(n int) {
	r.permits, r.good, r.best, r.congested, r.shrunk, r.pace = r.bounded(n), 0, 0, false, time.Time{}, pace{}
	r.epoch++
}

// bounded returns n within what is sensible and allowed.
func (r *ramp) bounded(n int) int {
	if r.ceiling > 0 {
		n = min(n, r.ceiling)
	}

	return max(1, n)
}

// calm ends the ramp: from now on only a limit counts.
func (r *ramp) calm() {
	if r.ceiling > 0 {
		r.permits, r.shrunk = r.ceiling, time.Time{}
	}
}

// found says whether the ramp has grown to the limit, so that nothing but the limit keeps anybody waiting.
func (r *ramp) found() bool {
	return r.resting() || (r.adaptive && r.congested)
}

// free says whether a permit is left.
func (r *ramp) free() bool {
	return r.out.n < r.permits && (r.ceiling == 0 || r.given < r.ceiling)
}

// resting says whether a fixed limit is in force and reached: once the gate passes, that nothing has made it shrink.
func (r *ramp) resting() bool { return r.ceiling > 0 && r.permits >= r.ceiling }

// stamp gives the plain permits that are out a time, since from now on they may be written off.
func (r *ramp) stamp(now time.Time) {
	for t := r.out.first; t != nil; t = t.next {
		if t.granted.IsZero() {
			t.granted = now
		}
	}
}

// give gives t a permit. A plain one has no time.
func (r *ramp) give(t *Ticket, now time.Time) {
	t.place, t.limited, t.plain, t.epoch, t.granted = permitted, true, now.IsZero(), r.epoch, now
	r.out.insertAfter(r.out.last, t)
	r.given++
	r.pressed = r.pressed || r.out.n >= r.permits
}

// take takes t's permit back. It is harmless for a ticket without one.
func (r *ramp) take(t *Ticket) {
	if t.place == permitted {
		r.out.remove(t)
	}
	if t.limited {
		r.given--
	}
	t.place, t.limited = outside, false
}

// grow counts a good answer to t. Once there were refusals, the window is not tried out while some of the refused are waiting: they go back only once.
func (r *ramp) grow(t *Ticket, now time.Time, refusedWait bool) {
	took := now.Sub(t.granted)
	if r.best == 0 || took < r.best {
		r.best = took
	}
	if !r.congested && took > 2*r.best+lateSlack {
		r.congested = true
		r.pace.restart() // what came in before was of fewer at once
	}
	r.good++
	window := r.good >= r.permits
	if r.adaptive {
		var late bool
		window = false
		if t.epoch == r.epoch { // the others were let through when more were allowed
			window, late = r.pace.see(took, r.permits)
		}
		if late {
			r.halve(now)

			return
		}
		if !r.pressed {
			return // nobody can tell what more would do
		}
	}
	if !r.congested || (window && !refusedWait) {
		r.permits = r.bounded(r.permits + 1)
		r.good, r.pressed = 0, false
	}
}

// shrink halves the permits, once for all who were let through before the backend could show the effect.
func (r *ramp) shrink(t *Ticket, now time.Time) {
	if t.epoch == r.epoch {
		r.halve(now)
	}
}

// halve halves the permits.
func (r *ramp) halve(now time.Time) {
	r.permits = max(1, min(r.permits, r.out.n)/2)
	r.good, r.congested, r.pressed, r.shrunk = 0, true, false, now
	r.pace.restart()
	r.epoch++
}

// recovers is when a limit that has shrunk goes back to what it is at rest; zero when it need not.
func (r *ramp) recovers() time.Time {
	if r.shrunk.IsZero() || r.permits >= r.rest {
		return time.Time{}
	}

	return r.shrunk.Add(quiet)
}

// recover ends the time after the last sign of overload, if it is over.
func (r *ramp) recover(now time.Time) {
	if at := r.recovers(); !at.IsZero() && !at.After(now) {
		r.permits, r.shrunk = r.rest, time.Time{}
	}
}

// lapse writes off the permits that have been out for too long.
func (r *ramp) lapse(now time.Time) {
	for t := r.out.first; t != nil && !t.granted.Add(patience).After(now); t = r.out.first {
		r.out.remove(t)
		t.place = lapsed
	}
}
