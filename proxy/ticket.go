package proxy

import "time"

// Ticket is one request's place at the gate. The zero Ticket is ready for use; it must not be copied once it was handed to a gate.
// Between two calls to [Gate.Wait] it belongs to the caller, otherwise to the gate. Every field is guarded by the gate's lock.
type Ticket struct {
	next, prev *Ticket
	list       *list
	body       *Body
	wake       chan Outcome // made when the request is held for the first time
	since      time.Time    // the present hold began
	deadline   time.Time    // the present hold ends
	expires    time.Time    // the caller stops waiting; zero when nobody knows. Set before the first wait
	arrived    time.Time    // the request came; orders those that were sent back
	granted    time.Time    // the permit was given
	held       time.Duration
	order      uint64 // position in line among those of its kind
	slot       int    // position in the heap of deadlines
	epoch      uint32 // ramp epoch in which the permit was given
	place      place
	returned   bool // goes to the head of the line
	hurried    bool // deadline is the caller's own, not ours
	owed       bool // was held while the backend was not ready, and is not answered yet
	plain      bool // got its permit from a fixed limit at rest, to which its answer says nothing
	limited    bool // was let through with a permit; changes only between waits, so that its owner may read it without the lock
}

// place is where a ticket is.
type place uint8

const (
	outside   place = iota // unknown to the gate, or let through without a permit
	inLine                 // held
	permitted              // let through with a permit
	lapsed                 // let through, and its permit was written off
)

// Held returns for how long the request has been held so far, all holds together. Call it only between two waits.
func (t *Ticket) Held() time.Duration { return t.held }

// before says whether t is to be let through before other. Requests that were sent back come first, in the order in which they arrived.
func (t *Ticket) before(other *Ticket) bool {
	switch {
	case t.returned != other.returned:
		return t.returned
	case t.returned:
		return t.arrived.Before(other.arrived)
	default:
		return t.order < other.order
	}
}

// list is a doubly linked list of tickets through their own links. The zero list is empty.
type list struct {
	first, last *Ticket
	n           int
}

// insert puts t behind the last ticket that is not to come after it. It looks from the end, where newcomers belong.
func (l *list) insert(t *Ticket) {
	at := l.last
	for at != nil && t.before(at) {
		at = at.prev
	}
	l.insertAfter(at, t)
}

// insertAfter puts t behind at, or first when at is nil.
func (l *list) insertAfter(at, t *Ticket) {
	t.list, t.prev = l, at
	if at == nil {
		t.next, l.first = l.first, t
	} else {
		t.next, at.next = at.next, t
	}
	if t.next == nil {
		l.last = t
	} else {
		t.next.prev = t
	}
	l.n++
}

// remove takes t out of the list it is in.
func (l *list) remove(t *Ticket) {
	if t.prev == nil {
		l.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.next, t.prev, t.list = nil, nil, nil
	l.n--
}
