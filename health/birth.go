package health

import (
	"sync"
	"time"
)

// Birth knows since when the backend runs, whenever Pilotlight began: by the start of the process that listens where that can be seen, and otherwise by when it was first seen.
type Birth struct {
	identity func() string
	started  func(identity string) (time.Time, bool)

	mu sync.Mutex
	of string // the identity that at belongs to; "" where that is unknown
	at time.Time
}

// NewBirth returns a Birth that finds out who listens by identity, see [ListenerIdentity], and since when that process runs by started, see [ListenerStart].
func NewBirth(identity func() string, started func(identity string) (time.Time, bool)) *Birth {
	return &Birth{identity: identity, started: started}
}

// Seen says that the backend answers. It costs up to milliseconds for a backend that was not seen before.
func (b *Birth) Seen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.look()
	if b.at.IsZero() {
		b.at = time.Now() // who listens is not known here
	}
}

// Lost says that the backend is gone. Whatever answers next is another one.
func (b *Birth) Lost() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of, b.at = "", time.Time{}
}

// At returns since when the backend runs that listens now, and whether that is known: it is not while none does.
func (b *Birth) At() (at time.Time, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.look() == "" && b.of != "" {
		return time.Time{}, false // it could be seen before, so nobody listens now
	}

	return b.at, !b.at.IsZero()
}

// look compares who listens with who did, and returns it. The lock is held.
//
// A worker that joins others makes the backend a new one, which only puts a restart off.
func (b *Birth) look() string {
	now := b.identity()
	if now == "" || (b.of != "" && !hasNew(b.of, now)) {
		return now
	}
	at, known := b.started(now)
	switch {
	case known:
		b.at = at
	case b.of != "" || b.at.IsZero():
		b.at = time.Now()
	}
	b.of = now

	return now
}
