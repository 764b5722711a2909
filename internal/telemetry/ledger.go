package telemetry

import "sync"

// ledger knows of each span that has ended what became of it. All methods may be called concurrently; none waits for anything else.
type ledger struct {
	mu     sync.Mutex
	closed bool
	counts spanCounts
}

// spanCounts is a ledger at one moment.
type spanCounts struct {
	waiting          int // for their delivery, or its end
	sent, full, lost int
}

// admit says whether there is room for one more span.
func (l *ledger) admit() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.counts.waiting >= queueSpans {
		l.counts.full++

		return false
	}
	l.counts.waiting++

	return true
}

// delivered takes how the delivery of n spans ended.
func (l *ledger) delivered(n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed && err == nil: // later than anybody would wait for
		l.counts.sent, l.counts.lost = l.counts.sent+n, l.counts.lost-n
	case l.closed:
	case err == nil:
		l.counts.waiting, l.counts.sent = l.counts.waiting-n, l.counts.sent+n
	default:
		l.counts.waiting, l.counts.lost = l.counts.waiting-n, l.counts.lost+n
	}
}

// close counts what still waits as lost: it has no way out any more.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.counts.lost += l.counts.waiting
	l.counts.waiting = 0
}

// now returns the counts.
func (l *ledger) now() spanCounts {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.counts
}
