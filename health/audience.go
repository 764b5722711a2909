package health

import (
	"context"
	"sync"
)

// maxWatches bounds how many watches of gRPC clients may be open at a time. Each costs five goroutines and some 20 to 40 KiB.
const maxWatches = 1024

// audience lets many follow the machine for the price of one watcher. A change closes a channel for which all of them wait; each then looks at the machine for itself.
// So a move costs the machine the same however many listen, nothing is queued for anybody, and whoever is slow finds the latest when it looks again.
// The machine is followed only while somebody listens: there is nothing to start and nothing to stop.
type audience struct {
	machine *Machine

	// mu comes before the machine's lock.
	mu      sync.Mutex
	size    int
	ignore  context.CancelFunc // ends the following; set while size > 0
	changed chan struct{}
}

func newAudience(machine *Machine) *audience {
	return &audience{machine: machine, changed: make(chan struct{})}
}

// join adds one listener, which must leave in the end, unless there are too many.
func (a *audience) join() (ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.size == maxWatches {
		return false
	}
	if a.size == 0 {
		ctx, cancel := context.WithCancel(context.Background()) // it outlives the call that happens to be the first
		a.ignore = cancel
		go a.follow(a.machine.Watch(ctx))
	}
	a.size++

	return true
}

func (a *audience) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.size--
	if a.size == 0 {
		a.ignore()
	}
}

// next returns a channel that is closed by the next change. A look at the machine after the call sees every change before it.
func (a *audience) next() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()

	return a.changed
}

// follow passes changes on until it is told to ignore them. Two that overlap, an old one and its successor, wake everybody once too often and do no harm.
func (a *audience) follow(changes <-chan Snapshot) {
	for range changes {
		a.mu.Lock()
		close(a.changed)
		a.changed = make(chan struct{})
		a.mu.Unlock()
	}
}
