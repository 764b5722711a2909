package circuit

import "time"

// Exchange is one call of the backend, from [Breaker.Allow] or [Breaker.AllowShape] to End. It is a value; the zero Exchange does nothing.
//
// Its methods may be called from several goroutines. A call that races End may be lost; after End nothing happens.
type Exchange struct {
	b      *Breaker
	slot   *slot
	id     uint64 // of this use of the slot
	era    uint32 // verdicts count only in the era in which the exchange began
	ticket uint32 // 0: not a trial
}

// Shape says of what shape the exchange is, where that shows only once it is under way.
func (e Exchange) Shape(shape Shape) {
	if e.b != nil && e.slot.holds(e.id) {
		e.slot.setShape(shape)
	}
}

// Start gives the start verdict, at the first body byte or the end of an answer without a body. Only the first call counts.
func (e Exchange) Start(v Verdict) {
	if e.b == nil || !e.slot.judge(e.id, markOf(v)) {
		return
	}
	now := e.b.now()
	if v == Good {
		e.slot.judged.Store(int64(now))
	}
	e.settle(v, now, e.b.window.record(e.era, e.slot.shapeNow(), v, now, now-startOf(e.id)))
}

// Progress says that a body byte of the answer has passed, whatever the verdict: evidence against "stalled".
// Keep-alive comments of an event stream are no progress. It may be called for every piece of a body: it costs three loads, and
// a store when the rough time has changed.
func (e Exchange) Progress() {
	if e.b == nil || !e.slot.holds(e.id) {
		return
	}
	if at := int64(e.b.roughly()); e.slot.touched.Load() != at {
		e.slot.touched.Store(at)
	}
}

// End is the last call, in a defer. Only the first call counts. With broken, a good start verdict is replaced by a bad one: the
// stream broke later. Without a start verdict the exchange says nothing about the backend, broken or not.
func (e Exchange) End(broken bool) {
	if e.b == nil {
		return
	}
	// All are read before the slot goes to somebody else.
	judged, touched, shape := time.Duration(e.slot.judged.Load()), time.Duration(e.slot.touched.Load()), e.slot.shapeNow()
	m, ok := e.slot.release(e.id)
	if !ok {
		return
	}
	switch {
	case m == awaiting:
		now := e.b.now()
		e.settle(None, now, e.b.window.record(e.era, shape, None, now, 0))
	case m == markGood && broken:
		now := e.b.now()
		e.settle(Bad, now, e.b.window.replace(e.era, judged, now))
	case m == markGood:
		touched = max(touched, e.b.pulse.last())
	}
	// Bytes that passed stay evidence when the exchange is gone; those of an earlier user of the slot are no news.
	e.b.finish(touched)
}

// settle tells the breaker of a verdict that the window has taken.
func (e Exchange) settle(v Verdict, now time.Duration, j judgement) {
	if e.ticket != 0 {
		e.b.tried(e.ticket, v)
	}
	if v == Bad && j.taken {
		e.b.suspect(e.era, j.tally, now)
	}
}
