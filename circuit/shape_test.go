package circuit

import (
	"testing"
	"testing/synctest"
	"time"
)

// oneAtATime answers synthetic requests as a server does that does one thing at a time: never, while a user's request is under way.
func oneAtATime(t *testing.T) (r *rig, serve func(shape Shape, takes time.Duration)) {
	t.Helper()
	r = newRig(t, DefaultConfig(), passes).run()

	return r, func(shape Shape, takes time.Duration) {
		r.answers(hangs)
		e, err := r.AllowShape(shape)
		if err != nil {
			t.Fatalf("shape %d: %v", shape, err)
		}
		r.wait(takes)
		e.Start(Good)
		e.End(false)
		r.answers(passes)
	}
}

func TestC46FirstLongRequestOfItsShapeIsNoStall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		short, long Shape
		want        State
	}{
		{"another shape than the short ones", 1, 2, Closed},
		{"the first request of all, shape unknown", 0, 0, Closed},
		{"control: as the short ones", 1, 1, Open},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, serve := oneAtATime(t)
				if test.short != 0 {
					for range 50 {
						serve(test.short, time.Second)
					}
				}
				r.answers(hangs)
				e, err := r.AllowShape(test.long)
				if err != nil {
					t.Fatal(err)
				}
				r.wait(10 * time.Minute)
				r.wantState(test.want)
				if asked := r.timesAsked(); (asked > 0) != (test.want == Open) {
					t.Errorf("asked %d times", asked)
				}
				e.Start(Good)
				e.End(false)
				if test.want == Closed { // from now on 10 minutes are known to be what it takes
					serve(test.long, 30*time.Minute)
					r.wantState(Closed)
				}
			})
		})
	}
}

// A long request hides no stall: the short ones behind it are evidence by themselves, unless they wait for it for less than usual.
func TestC46ShortRequestsBehindALongOneAreEvidence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, serve := oneAtATime(t)
		for range 10 {
			serve(1, time.Second)
		}
		began := r.clock()
		r.answers(hangs)
		for _, shape := range []Shape{2, 1} {
			if _, err := r.AllowShape(shape); err != nil {
				t.Fatal(err)
			}
		}
		r.wait(20 * time.Second)
		r.wantState(Open)
		if took := r.heardAt() - began; took < 10*time.Second || took > 17*time.Second {
			t.Errorf("opened after %s", took)
		}
	})
}

func TestEachShapeHasItsOwnLongestFirstByte(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		shape Shape
		asks  time.Duration
	}{
		{1, 10 * time.Second},
		{2, 4 * 8 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, serve := oneAtATime(t)
			serve(1, time.Second)
			serve(2, 8*time.Second)
			r.answers(hangs)
			began := r.clock()
			if _, err := r.AllowShape(test.shape); err != nil {
				t.Fatal(err)
			}
			r.wait(time.Minute)
			if r.timesAsked() == 0 {
				t.Fatalf("shape %d: never asked", test.shape)
			}
			if at := r.asked[0] - began; at < test.asks || at > test.asks+2*time.Second {
				t.Errorf("shape %d: asked after %s, expected about %s", test.shape, at, test.asks)
			}
		})
	}
}

func TestBluntRuleCountsShapesThatFinishedOnly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		shapes []Shape
		opens  bool
	}{
		{"three that finished", []Shape{1, 1, 1}, true},
		{"two, and one that never did", []Shape{1, 1, 2}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), nil).run()
			e, _ := r.AllowShape(1)
			e.Start(Good)
			e.End(false)
			for _, shape := range test.shapes {
				if _, err := r.AllowShape(shape); err != nil {
					t.Fatal(err)
				}
			}
			r.wait(5 * time.Minute)
			if heard := r.all(); (len(heard) > 0) != test.opens {
				t.Errorf("%s: heard %q, expected it to open: %t", test.name, heard, test.opens)
			}
		})
	}
}

func TestWhatAWarmUpFinishedIsEvidence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), hangs).run()
		r.Learn(7, time.Second)
		if _, err := r.AllowShape(7); err != nil {
			t.Fatal(err)
		}
		r.wait(20 * time.Second)
		r.wantState(Open)
	})
}

func TestNoMoreShapesAreKeptThanThereIsRoomFor(t *testing.T) {
	t.Parallel()
	var f firstBytes
	for i := range 10 * shapesKept {
		now := time.Duration(i) * time.Second
		f.see(Shape(i+1), time.Second, now)
		f.see(0, time.Second, now) // asked for all the time
	}
	all := f.copied()
	if _, kept := all[0]; len(all) != shapesKept || !kept {
		t.Errorf("%d kept, the one in use among them: %t", len(all), kept)
	}
	if _, kept := all[1]; kept {
		t.Error("the stalest is kept")
	}
}
