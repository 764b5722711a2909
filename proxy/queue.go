package proxy

import (
	"container/heap"
	"time"
)

// queue is the one line in which requests are held, for whatever reason. It is guarded by the gate's lock.
// A request whose body is not there yet keeps its place but is passed over while permits are scarce:
// it stands in a list of its own, ordered like the other, so that finding the next one never means a search.
type queue struct {
	ready, incomplete list
	deadlines         deadlines
	orders            uint64
}

// len returns how many requests are held.
func (q *queue) len() int { return q.ready.n + q.incomplete.n }

// push puts t in line: last, or before all who were never sent back.
func (q *queue) push(t *Ticket, complete bool) {
	if !t.returned {
		q.orders++
		t.order = q.orders
	}
	t.place = inLine
	if complete {
		q.ready.insert(t)
	} else {
		q.incomplete.insert(t)
	}
	heap.Push(&q.deadlines, t)
}

// complete says that t, which is in line, need not be passed over any longer.
func (q *queue) complete(t *Ticket) {
	if t.list == &q.incomplete {
		q.incomplete.remove(t)
		q.ready.insert(t)
	}
}

// each calls f with everybody in line, in no order.
func (q *queue) each(f func(*Ticket)) {
	for _, t := range q.deadlines {
		f(t)
	}
}

// remove takes t out of the line.
func (q *queue) remove(t *Ticket) {
	t.list.remove(t)
	heap.Remove(&q.deadlines, t.slot)
	t.place = outside
}

// next returns the ticket whose turn it is when permits are scarce, or nil.
func (q *queue) next() *Ticket {
	if q.ready.first != nil {
		return q.ready.first
	}

	return q.incomplete.first
}

// first returns the ticket at the very head of the line, its body there or not, or nil.
func (q *queue) first() *Ticket {
	a, b := q.ready.first, q.incomplete.first
	if a == nil || (b != nil && b.before(a)) {
		return b
	}

	return a
}

// late returns a ticket whose time is up, or nil.
func (q *queue) late(now time.Time) *Ticket {
	if len(q.deadlines) == 0 || q.deadlines[0].deadline.After(now) {
		return nil
	}

	return q.deadlines[0]
}

// longest returns for how long the one that waits longest has been held.
func (q *queue) longest(now time.Time) time.Duration {
	var longest time.Duration
	for _, t := range q.deadlines {
		longest = max(longest, t.held+now.Sub(t.since))
	}

	return longest
}

// deadlines is a heap of the held tickets. One heap and one timer for all: a timer each would cost memory for every held request.
type deadlines []*Ticket //nolint:recvcheck // heap.Interface wants both

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].slot, d[j].slot = i, j
}

// Push implements [heap.Interface].
func (d *deadlines) Push(x any) {
	t, _ := x.(*Ticket)
	t.slot = len(*d)
	*d = append(*d, t)
}

// Pop implements [heap.Interface].
func (d *deadlines) Pop() any {
	old := *d
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]

	return t
}
