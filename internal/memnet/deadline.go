package memnet

import (
	"sync"
	"time"
)

// deadline is a moment that may be moved while others wait for it.
type deadline struct {
	mu     sync.Mutex
	passed chan struct{} // closed once the moment has passed; replaced when a passed deadline is moved
	isPast bool
	setter int // counts the calls of set, so that a late timer of an earlier one does nothing
}

func newDeadline() *deadline { return &deadline{passed: make(chan struct{})} }

// wait returns a channel that is closed when the deadline passes. Whoever waits on it sees the deadline being moved, but not its being renewed after it had passed.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()

	return d.passed
}

// set moves the deadline to t; the zero time means never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.setter++
	if d.isPast {
		d.isPast, d.passed = false, make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.pass()

		return
	}
	mine := d.setter
	time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.setter == mine {
			d.pass()
		}
	})
}

func (d *deadline) pass() {
	d.isPast = true
	close(d.passed)
}
