package circuit

import "time"

// Shape stands for requests that may be expected to take alike, such as those for one model with about as many tokens in and out. What it is made of is the caller's business;
// it must be coarse, since only [shapesKept] of them are remembered. 0 is that of requests whose shape is not known: they are all compared with each other.
type Shape uint32

// shapesKept bounds how many shapes are remembered. The one that finished longest ago gives way.
const shapesKept = 256

// firstBytes knows, for each shape that has finished an exchange, what its first bytes took of late.
type firstBytes map[Shape]*longest

func (f *firstBytes) see(shape Shape, took, now time.Duration) {
	of := (*f)[shape]
	if of == nil {
		if *f == nil {
			*f = firstBytes{}
		}
		if len(*f) >= shapesKept {
			f.forgetOne()
		}
		of = &longest{rotated: now}
		(*f)[shape] = of
	}
	of.see(took, now)
}

func (f *firstBytes) forgetOne() {
	var stalest Shape
	var oldest *longest
	for shape, of := range *f {
		if oldest == nil || of.seen < oldest.seen {
			stalest, oldest = shape, of
		}
	}
	delete(*f, stalest)
}

// copied is what there is to know without the lock.
func (f *firstBytes) copied() map[Shape]time.Duration {
	all := make(map[Shape]time.Duration, len(*f))
	for shape, of := range *f {
		all[shape] = of.get()
	}

	return all
}

// longest is the longest of the times seen of late. Only what is seen later pushes it out: a shape for which nobody asks for an hour is not known to be fast by that.
type longest struct {
	current, previous time.Duration
	rotated           time.Duration // when current began
	seen              time.Duration // when the last one was
}

func (l *longest) see(took, now time.Duration) {
	if now-l.rotated >= memoryOfFirsts {
		*l = longest{previous: l.current, rotated: now}
	}
	l.current, l.seen = max(l.current, took), now
}

func (l *longest) get() time.Duration { return max(l.current, l.previous) }

// Learn says that an exchange of the shape was finished that the breaker did not see, such as a warm-up's, and what its first byte took.
func (b *Breaker) Learn(shape Shape, firstByte time.Duration) {
	b.window.learn(shape, firstByte, b.now())
}
