package circuit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newFlights() *flights {
	f := &flights{}
	f.newest.Store(newTable(firstSlots, nil))

	return f
}

func (f *flights) slots() int {
	n := 0
	for t := f.newest.Load(); t != nil; t = t.older {
		n += len(t.slots)
	}

	return n
}

func TestFlightsGrowWithWhatIsUnderWayAndNoFurther(t *testing.T) {
	t.Parallel()
	const n = 10_000
	f := newFlights()
	type flight struct {
		s  *slot
		id uint64
	}
	for range 3 {
		under := make([]flight, 0, n)
		for range n {
			s, id := f.take(time.Second)
			under = append(under, flight{s, id})
		}
		if got := f.census(0).count; got != n {
			t.Fatalf("%d under way, expected %d", got, n)
		}
		for _, u := range under {
			if _, ok := u.s.release(u.id); !ok {
				t.Fatal("a slot did not come back")
			}
		}
		if got := f.census(0).count; got != 0 {
			t.Fatalf("%d under way when all are over", got)
		}
	}
	if got := f.slots(); got > 8*n {
		t.Errorf("%d slots for %d exchanges", got, n)
	}
}

func TestASlotBelongsToOneExchange(t *testing.T) {
	t.Parallel()
	s := &slot{}
	old, _ := s.claim(time.Second)
	s.release(old)
	// The same time again: only the generation tells them apart.
	id, ok := s.claim(time.Second)
	if !ok {
		t.Fatal("a free slot was not taken")
	}
	if s.judge(old, markBad) || s.holds(old) {
		t.Error("an exchange that is over still has its slot")
	}
	if _, ok := s.release(old); ok {
		t.Error("an exchange freed the slot of another")
	}
	if !s.judge(id, markGood) || s.judge(id, markBad) {
		t.Error("the start verdict was not taken exactly once")
	}
	if m, ok := s.release(id); !ok || m != markGood {
		t.Errorf("released with mark %d, %t", m, ok)
	}
}

func TestEvidenceKeepsTheThreeThatAreDueFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		starts := rapid.SliceOfN(rapid.IntRange(0, 50), 0, 12).Draw(t, "starts")
		var c evidence
		for _, s := range starts {
			c.wait(time.Duration(s))
		}
		sorted := append([]int(nil), starts...)
		for i := range sorted {
			for k := i + 1; k < len(sorted); k++ {
				if sorted[k] < sorted[i] {
					sorted[i], sorted[k] = sorted[k], sorted[i]
				}
			}
		}
		if c.waits != min(len(sorted), 3) {
			t.Fatalf("%d wait, expected %d", c.waits, min(len(sorted), 3))
		}
		for i := range c.waits {
			if c.waiting[i] != time.Duration(sorted[i]) {
				t.Fatalf("waiting %v of %v", c.waiting[:c.waits], sorted)
			}
		}
	})
}

func TestCensusLeavesOutEarlierEras(t *testing.T) {
	t.Parallel()
	f := newFlights()
	f.take(time.Second)
	f.take(3 * time.Second)
	if c := f.census(2 * time.Second); c.count != 1 || c.oldest != stamp(3*time.Second) {
		t.Errorf("%d under way since %s, expected 1 since 3 s", c.count, c.oldest)
	}
}
