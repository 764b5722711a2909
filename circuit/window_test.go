package circuit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newTestWindow(span time.Duration) *window { return &window{width: bucketWidth(span)} }

func TestWindowForgetsWhatIsOlder(t *testing.T) {
	t.Parallel()
	w := newTestWindow(10 * time.Second)
	w.record(0, 0, Bad, 500*time.Millisecond, 0)
	for _, step := range []struct {
		name string
		now  time.Duration
		want Tally
	}{
		{"at once", time.Second, Tally{Bad: 1}},
		{"nine tenths later", 9900 * time.Millisecond, Tally{Bad: 1}},
		{"the whole window later", 10500 * time.Millisecond, Tally{}},
		{"long after", time.Hour, Tally{}},
	} {
		if got := w.tally(step.now); got != step.want {
			t.Errorf("%s: tally is %+v, expected %+v", step.name, got, step.want)
		}
	}
}

func TestWindowTakesNoVerdictOfAnotherEra(t *testing.T) {
	t.Parallel()
	w := newTestWindow(time.Minute)
	w.record(0, 0, Good, time.Second, 0)
	w.begin(1, false)
	if j := w.record(0, 0, Bad, 2*time.Second, 0); j.taken {
		t.Error("a verdict of the era before was taken")
	}
	if j := w.replace(0, time.Second, 2*time.Second); j.taken {
		t.Error("a break of the era before was taken")
	}
	if got := w.tally(2 * time.Second); got != (Tally{}) {
		t.Errorf("tally is %+v, expected nothing", got)
	}
}

func TestWindowCountsABrokenExchangeOnce(t *testing.T) {
	t.Parallel()
	w := newTestWindow(10 * time.Second)
	w.record(0, 0, Good, time.Second, 0)
	w.record(0, 0, Good, 2*time.Second, 0)
	if j := w.replace(0, time.Second, 5*time.Second); j.tally != (Tally{Good: 1, Bad: 1}) {
		t.Errorf("tally is %+v, expected one good and one bad", j.tally)
	}
	// The good verdict has long left the window: nothing is taken from those that are in it.
	w.record(0, 0, Good, 21*time.Second, 0)
	if j := w.replace(0, 2*time.Second, 22*time.Second); j.tally != (Tally{Good: 1, Bad: 1}) {
		t.Errorf("tally is %+v, expected one good and one bad", j.tally)
	}
}

// Against a list of verdicts with their times: what fell in the last nine buckets is counted, what is older than ten is not.
func TestWindowAgreesWithAList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		width := time.Second
		w := newTestWindow(windowBuckets * width)
		type fallen struct {
			v  Verdict
			at time.Duration
		}
		verdicts := rapid.IntRange(1, 60).Draw(t, "verdicts")
		list := make([]fallen, 0, verdicts)
		now := time.Duration(0)
		for range verdicts {
			now += time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond
			v := rapid.SampledFrom(VerdictValues()).Draw(t, "verdict")
			w.record(0, 0, v, now, 0)
			list = append(list, fallen{v, now})
			var want Tally
			for _, f := range list {
				if now/width-f.at/width >= windowBuckets {
					continue
				}
				switch f.v {
				case Good:
					want.Good++
				case Bad:
					want.Bad++
				case None:
					want.None++
				}
			}
			if got := w.tally(now); got != want {
				t.Fatalf("tally at %s is %+v, expected %+v", now, got, want)
			}
		}
	})
}
