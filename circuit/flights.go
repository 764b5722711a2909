package circuit

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// flights knows which exchanges are under way and since when, so that silence can be noticed. It is on the path of every request,
// so taking and giving back a slot is one compare-and-swap each, without a lock and without an allocation. The tables grow with
// the most exchanges ever under way at once, to at most 4 slots for each, and never shrink.
type flights struct {
	newest atomic.Pointer[table]
	grow   sync.Mutex
}

type table struct {
	slots []slot // a power of two
	older *table // was too small; its slots are given back but not taken again
}

// slot is one exchange under way. It fills a cache line, since neighbours belong to other cores.
type slot struct {
	// word is, from the top: 48 bits of start time in units of 1024 ns (9 years), 13 bits of generation, 2 bits of mark, 1 bit of use.
	// All in one word, so that nobody can see one exchange's use with another's start.
	word atomic.Uint64
	// touched is when a body byte passed last. It may stem from an earlier user of the slot: then it is older than the start.
	touched atomic.Int64
	// judged is when the good verdict fell.
	judged atomic.Int64
	// shape is that of the exchange. It is written just after the slot was taken, so that for a moment it may be that of an earlier user.
	shape atomic.Uint32
	_     [36]byte
}

const (
	slotUsed        = 1
	markShift       = 1
	markMask        = 3 << markShift
	generationShift = 3
	generationMask  = 1<<13 - 1
	stampShift      = 16
	stampUnit       = 10 // in bits: 1024 ns

	firstSlots  = 64
	probesAtMax = 8
)

// mark is how far an exchange got.
type mark uint64

const (
	awaiting mark = iota // no start verdict yet
	markNone
	markGood
	markBad
)

func markOf(v Verdict) mark {
	switch v {
	case Good:
		return markGood
	case Bad:
		return markBad
	case None:
	}

	return markNone
}

// stamp rounds a time down as the words do.
func stamp(at time.Duration) time.Duration { return at >> stampUnit << stampUnit }

func startOf(word uint64) time.Duration { return time.Duration(word >> stampShift << stampUnit) }
func markIn(word uint64) mark           { return mark(word & markMask >> markShift) }

func newTable(n int, older *table) *table { return &table{slots: make([]slot, n), older: older} }

// take claims a slot for an exchange that begins now. The id names this use of the slot and no other.
func (f *flights) take(now time.Duration) (*slot, uint64) {
	t := f.newest.Load()
	mask := uint32(len(t.slots) - 1) //nolint:gosec // no table has 2^32 slots
	from := rand.Uint32()            //nolint:gosec // which slot is tried first is no secret
	for i := range uint32(probesAtMax) {
		s := &t.slots[(from+i)&mask]
		if id, ok := s.claim(now); ok {
			return s, id
		}
	}

	return f.takeCrowded(now)
}

// takeCrowded looks at the whole table and makes a larger one when it is half full.
func (f *flights) takeCrowded(now time.Duration) (*slot, uint64) {
	f.grow.Lock()
	defer f.grow.Unlock()
	for {
		t := f.newest.Load()
		var free *slot
		used := 0
		for i := range t.slots {
			if t.slots[i].word.Load()&slotUsed != 0 {
				used++
			} else {
				free = &t.slots[i]
			}
		}
		if used > len(t.slots)/2 {
			f.newest.Store(newTable(2*len(t.slots), t))

			continue
		}
		if id, ok := free.claim(now); ok {
			return free, id
		}
	}
}

func (s *slot) claim(now time.Duration) (uint64, bool) {
	word := s.word.Load()
	if word&slotUsed != 0 {
		return 0, false
	}
	id := uint64(now)>>stampUnit<<stampShift | word | slotUsed //nolint:gosec // time does not run backwards

	return id, s.word.CompareAndSwap(word, id)
}

func (s *slot) shapeNow() Shape { return Shape(s.shape.Load()) }

// setShape stores only a change: a store costs more than a load, and most shapes are like those before.
func (s *slot) setShape(shape Shape) {
	if s.shape.Load() != uint32(shape) {
		s.shape.Store(uint32(shape))
	}
}

// judge notes the start verdict; false when the exchange is over or has one already.
func (s *slot) judge(id uint64, m mark) bool {
	return s.word.CompareAndSwap(id, id|uint64(m)<<markShift)
}

// holds says whether the slot still belongs to the exchange.
func (s *slot) holds(id uint64) bool { return s.word.Load()&^markMask == id }

// release frees the slot and says how far the exchange got; false when it was over already.
func (s *slot) release(id uint64) (mark, bool) {
	for {
		word := s.word.Load()
		if word&^markMask != id {
			return 0, false
		}
		next := (word>>generationShift + 1) & generationMask << generationShift
		if s.word.CompareAndSwap(word, next) {
			return markIn(word), true
		}
	}
}

// census is what is under way.
type census struct {
	count  int
	oldest time.Duration // start of the oldest
	// touched is when a body byte of one that is under way passed last; 0: never.
	touched time.Duration
}

// census looks at every exchange that began at since or later: those of an earlier era say nothing about this one.
func (f *flights) census(since time.Duration) census {
	return f.survey(since, func(time.Duration, Shape, mark) {})
}

// survey is a census that shows each exchange to visit.
func (f *flights) survey(since time.Duration, visit func(start time.Duration, shape Shape, m mark)) census {
	var c census
	since = stamp(since)
	for t := f.newest.Load(); t != nil; t = t.older {
		for i := range t.slots {
			s := &t.slots[i]
			word := s.word.Load()
			if word&slotUsed == 0 || startOf(word) < since {
				continue
			}
			start := startOf(word)
			if c.count == 0 || start < c.oldest {
				c.oldest = start
			}
			c.count++
			if touched := time.Duration(s.touched.Load()); touched >= start {
				c.touched = max(c.touched, touched)
			}
			visit(start, s.shapeNow(), markIn(word))
		}
	}

	return c
}
