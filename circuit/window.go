package circuit

import (
	"sync"
	"time"
)

// windowBuckets is how finely the window rolls: a verdict is forgotten between 9/10 of the window and the whole window after it fell.
const windowBuckets = 10

// Tally counts verdicts.
type Tally struct {
	Good int `json:"good"`
	Bad  int `json:"bad"`
	// None counts exchanges that said nothing. They have no part in the rate.
	None int `json:"none"`
}

// judged is the number of verdicts that have a part in the rate.
func (t Tally) judged() int { return t.Good + t.Bad }

// rate is the share of bad verdicts, 0 when there are none.
func (t Tally) rate() float64 {
	if t.judged() == 0 {
		return 0
	}

	return float64(t.Bad) / float64(t.judged())
}

// window is the rolling record of verdicts, by the time at which they FELL. A record by the time at which exchanges began loses
// exactly the failures that matter: those that took longer than the window.
//
// Times are spans since the breaker was made.
type window struct {
	width time.Duration // of one bucket

	mu      sync.Mutex
	era     uint32 // verdicts on exchanges of another era are not taken
	buckets [windowBuckets]bucket
	// lastGood is when the last good verdict fell; 0: never.
	lastGood time.Duration
	firsts   firstBytes
}

type bucket struct {
	Tally

	tick int64 // which span of width it stands for
}

// judgement is what the window answers to a verdict.
type judgement struct {
	taken bool  // false: the exchange belongs to another era
	tally Tally // of the whole window, only after a bad verdict
}

// bucketWidth is the part of a window that one bucket stands for.
func bucketWidth(span time.Duration) time.Duration { return max(span/windowBuckets, 1) }

// record takes a verdict on an exchange of an era and a shape, and how long its first byte took.
func (w *window) record(era uint32, shape Shape, v Verdict, now, took time.Duration) judgement {
	w.mu.Lock()
	defer w.mu.Unlock()
	if era != w.era {
		return judgement{}
	}
	b := w.at(now)
	switch v {
	case Good:
		b.Good++
		w.lastGood = max(w.lastGood, now, 1)
		w.firsts.see(shape, took, now)
	case Bad:
		b.Bad++

		return judgement{taken: true, tally: w.sum(now)}
	case None:
		b.None++
	}

	return judgement{taken: true}
}

// replace turns the good verdict that fell at judged into a bad one that falls now: an exchange counts once.
func (w *window) replace(era uint32, judged, now time.Duration) judgement {
	w.mu.Lock()
	defer w.mu.Unlock()
	if era != w.era {
		return judgement{}
	}
	tick := int64(judged / w.width)
	if old := &w.buckets[tick%windowBuckets]; old.tick == tick && old.Good > 0 {
		old.Good--
	}
	w.at(now).Bad++

	return judgement{taken: true, tally: w.sum(now)}
}

// at returns the bucket for now. The lock is held. A bucket newer than now is used as it is: two callers may read the clock in one
// order and take the lock in the other.
func (w *window) at(now time.Duration) *bucket {
	tick := int64(now / w.width)
	b := &w.buckets[tick%windowBuckets]
	if b.tick < tick {
		*b = bucket{tick: tick}
	}

	return b
}

// sum adds up the buckets that are not older than the window. The lock is held.
func (w *window) sum(now time.Duration) Tally {
	var total Tally
	oldest := int64(now/w.width) - windowBuckets
	for i := range w.buckets {
		if b := &w.buckets[i]; b.tick > oldest {
			total.Good += b.Good
			total.Bad += b.Bad
			total.None += b.None
		}
	}

	return total
}

// tally returns the counts of the window as it stands.
func (w *window) tally(now time.Duration) Tally {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.sum(now)
}

// begin empties the window for a new era. What the backend's first bytes are known to take stays, unless the backend is another one.
func (w *window) begin(era uint32, otherBackend bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.era = era
	w.buckets = [windowBuckets]bucket{}
	if otherBackend {
		w.lastGood, w.firsts = 0, nil
	}
}

// work says when the last good verdict fell; 0: never.
func (w *window) work() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.lastGood
}

// learn takes the first byte of an exchange that was finished elsewhere.
func (w *window) learn(shape Shape, took, now time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.firsts.see(shape, took, now)
}

// firstBytes is what the longest first byte took of late, for each shape that has finished an exchange.
func (w *window) firstBytes() map[Shape]time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.firsts.copied()
}
