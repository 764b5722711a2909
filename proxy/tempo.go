package proxy

import "time"

// leastTempo is from how many on the tempo can be told.
const leastTempo = 8

// tempo is how fast the line gets shorter while permits are scarce, by the last of those who were let through. It is guarded by the gate's lock.
type tempo struct {
	began   time.Time // the line began, or the gate opened for it
	through [32]time.Time
	n       int // who were let through since then
}

// begin says that somebody waits for a permit, after nobody did.
func (t *tempo) begin(now time.Time) { t.began, t.n = now, 0 }

// let says that somebody who waited was let through.
func (t *tempo) let(now time.Time) {
	t.through[t.n%len(t.through)] = now
	t.n++
}

// forecast returns how long somebody will wait who has so many before him, by what was seen; 0 when too little was.
func (t *tempo) forecast(ahead int, now time.Time) time.Duration {
	since, n := t.began, min(t.n, len(t.through))
	if n < leastTempo {
		return 0
	}
	if t.n > len(t.through) {
		since, n = t.through[t.n%len(t.through)], n-1
	}

	return now.Sub(since) * time.Duration(ahead) / time.Duration(n)
}
