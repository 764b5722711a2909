package circuit

import "time"

// evidence is when exchanges under way become suspicious, if they go on as they do: those only whose shape has finished before.
type evidence struct {
	count int
	due   time.Duration // of the first of them
	// waiting holds the three earliest times at which one without a first byte is suspicious to the blunt rule, in order.
	waiting [bluntFactor]time.Duration
	// waits is how many of them there are, at most 3.
	waits int
}

func (e *evidence) suspect(due time.Duration) {
	if e.count == 0 || due < e.due {
		e.due = due
	}
	e.count++
}

// wait keeps due if it is among the three earliest.
func (e *evidence) wait(due time.Duration) {
	at := e.waits
	for at > 0 && e.waiting[at-1] > due {
		at--
	}
	if at == len(e.waiting) {
		return
	}
	copy(e.waiting[at+1:], e.waiting[at:])
	e.waiting[at] = due
	e.waits = min(e.waits+1, len(e.waiting))
}
