package proxy

import "time"

// patience is how long a permit may be out, while others wait for one, before it is written off. An answer that takes minutes, or never comes,
// would otherwise keep everybody behind it until their time is up.
const patience = 2 * time.Second

// lateSlack is how much later than twice the fastest an answer may begin before that counts as late: less is the noise of a machine.
const lateSlack = 5 * time.Millisecond

// ramp counts permits while the gate is ramping. It is guarded by the gate's lock.
//
// It is TCP's slow start: each good answer adds a permit, so that what is in flight doubles per round trip. A refusal as busy halves it. From the first refusal,
// or the first answer that begins much later than the fastest did, a whole window of good answers adds one: by then a larger window only makes a queue inside the backend.
// A late answer halves nothing, since answers to different questions take different times.
type ramp struct {
	permits   int  // how many may be out
	out       list // those out, oldest first, without those written off
	good      int  // good answers since the last change
	epoch     uint32
	best      time.Duration // the fastest beginning of an answer
	congested bool
}

// begin starts anew with n permits. Those that are still out from an earlier ramp count against them.
func (r *ramp) begin(n int) {
	r.permits, r.good, r.best, r.congested = max(1, n), 0, 0, false
	r.epoch++
}

// free says whether a permit is left.
func (r *ramp) free() bool { return r.out.n < r.permits }

// give gives t a permit.
func (r *ramp) give(t *Ticket, now time.Time) {
	t.place, t.limited, t.epoch, t.granted = permitted, true, r.epoch, now
	r.out.insertAfter(r.out.last, t)
}

// take takes t's permit back. It is harmless for a ticket without one.
func (r *ramp) take(t *Ticket) {
	if t.place == permitted {
		r.out.remove(t)
	}
	t.place, t.limited = outside, false
}

// grow counts a good answer to t. Once there were refusals, the window is not tried out while some of the refused are waiting: they go back only once.
func (r *ramp) grow(t *Ticket, now time.Time, refusedWait bool) {
	took := now.Sub(t.granted)
	if r.best == 0 || took < r.best {
		r.best = took
	}
	r.congested = r.congested || took > 2*r.best+lateSlack
	r.good++
	if !r.congested || (r.good >= r.permits && !refusedWait) {
		r.permits++
		r.good = 0
	}
}

// shrink halves the permits, once for all who were let through before the backend could show the effect.
func (r *ramp) shrink(t *Ticket) {
	if t.epoch != r.epoch {
		return
	}
	r.permits = max(1, min(r.permits, r.out.n)/2)
	r.good, r.congested = 0, true
	r.epoch++
}

// lapse writes off the permits that have been out for too long, and says whether there were any.
func (r *ramp) lapse(now time.Time) bool {
	lapsedAny := false
	for t := r.out.first; t != nil && !t.granted.Add(patience).After(now); t = r.out.first {
		r.out.remove(t)
		t.place = lapsed
		lapsedAny = true
	}

	return lapsedAny
}
