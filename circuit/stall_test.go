package circuit

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestC46StopsAnswering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), passes).run()
		for range 300 { // 10 a second, each answered after 50 ms
			e := r.allow()
			r.wait(50 * time.Millisecond)
			e.Start(Good)
			e.End(false)
			r.wait(50 * time.Millisecond)
		}
		r.wantHeard()
		if r.timesAsked() != 0 {
			t.Errorf("asked %d times while all was well", r.timesAsked())
		}
		stopped := r.clock()
		r.answers(hangs)
		for r.clock() < stopped+20*time.Second {
			if _, err := r.Allow(); err != nil {
				break
			}
			r.wait(100 * time.Millisecond)
		}
		r.wantState(Open)
		if took := r.heardAt() - stopped; took < 10*time.Second || took > 16*time.Second {
			t.Errorf("opened after %s, expected about 15 s", took)
		}
		if reason := r.Snapshot().Reason; !strings.Contains(reason, "stalled") {
			t.Errorf("reason %q does not say stalled", reason)
		}
	})
}

func TestC46ProgressingStreamsAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		progress bool
		want     State
	}{
		{"tokens flow", true, Closed},
		{"control: no token flows", false, Open},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, DefaultConfig(), hangs).run()
				e := r.allow()
				r.wait(time.Second)
				e.Start(Good)
				for range 40 {
					r.wait(9 * time.Second)
					if test.progress {
						e.Progress()
					}
				}
				r.wantState(test.want)
				if asked := r.timesAsked(); test.progress && asked != 0 {
					t.Errorf("asked %d times", asked)
				}
				e.End(false)
			})
		})
	}
}

func TestALongRequestOnAHealthyServerNeverOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), passes).run()
		r.users(1, Good)
		e := r.allow()
		r.wait(10 * time.Minute)
		r.wantState(Closed)
		r.wantHeard()
		// Each minute in the end, not each 10 s: an idle tunnel must not cost an inference every stalled_after.
		if asked := r.timesAsked(); asked < 5 || asked > 15 {
			t.Errorf("asked %d times in 10 minutes", asked)
		}
		for i := 1; i < len(r.asked); i++ {
			if gap := r.asked[i] - r.asked[i-1]; gap < 10*time.Second {
				t.Errorf("asked again after %s", gap)
			}
		}
		e.Start(Good)
		e.End(false)
	})
}

func TestStalledNeedsFourTimesTheLongestFirstByte(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), passes).run()
		e := r.allow()
		r.wait(8 * time.Second)
		e.Start(Good)
		e.End(false)
		r.answers(hangs)
		began := r.clock()
		r.allow()
		r.wait(31 * time.Second)
		if r.timesAsked() != 0 {
			t.Errorf("asked at %v, expected none before 32 s", r.asked[0]-began)
		}
		r.wait(10 * time.Second)
		r.wantState(Open)
	})
}

func TestUserWorkIsBetterEvidenceThanASyntheticRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), hangs).run()
		r.users(1, Good)
		e := r.allow()
		r.wait(12 * time.Second)
		if r.timesAsked() != 1 {
			t.Fatalf("asked %d times, expected once", r.timesAsked())
		}
		e.Progress() // while the synthetic request hangs
		r.wait(5 * time.Second)
		r.wantState(Closed)
		r.wait(20 * time.Second)
		r.wantState(Open)
	})
}

func TestStalledWithoutASyntheticRequest(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		finished int // before the silence
		inFlight int
		started  bool
		young    bool // new ones keep coming
		want     State
	}{
		{"three wait", 1, 3, false, false, Open},
		{"three wait and more come", 1, 3, false, true, Open},
		{"two wait", 1, 2, false, false, Closed},
		{"nothing ever finished", 0, 3, false, false, Closed},
		{"three idle streams", 1, 3, true, false, Closed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, DefaultConfig(), nil).run()
				r.users(test.finished, Good)
				for range test.inFlight {
					e := r.allow()
					if test.started {
						e.Start(Good)
					}
				}
				for range 28 {
					r.wait(time.Second)
					if test.young {
						r.allow()
					}
				}
				r.wantState(Closed)
				r.wait(5 * time.Second)
				r.wantState(test.want)
				if test.want == Closed {
					r.wait(5 * time.Minute)
					r.wantState(Closed)
				}
			})
		})
	}
}

func TestWorkStaysEvidenceWhenItsExchangeIsGone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		work func(e Exchange)
	}{
		{"finished", func(e Exchange) { e.Start(Good); e.End(false) }},
		{"a stream finished", func(e Exchange) { e.End(false) }},
		{"bytes passed, then the client left", func(e Exchange) { e.Progress(); e.End(true) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, DefaultConfig(), fails).run()
				r.users(1, Good)
				waiting, working := r.allow(), r.allow()
				if test.name == "a stream finished" {
					working.Start(Good)
				}
				r.wait(9 * time.Second)
				test.work(working)
				r.wait(9 * time.Second)
				r.wantState(Closed)
				if r.timesAsked() != 0 {
					t.Errorf("asked at %v", r.asked)
				}
				r.wait(3 * time.Second)
				// The control, unless the longest first byte says to wait longer.
				if test.name != "finished" {
					r.wantState(Open)
				}
				waiting.End(false)
			})
		})
	}
}

func TestAnotherBackendIsJudgedByItsOwnWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), fails).run()
		e := r.allow()
		r.wait(8 * time.Second)
		e.Start(Good) // the old one is slow: for it, 32 s of silence are nothing
		e.End(false)
		r.wait(300 * time.Millisecond) // between two beats of the pulse
		r.Lost()
		r.users(1, Good)
		r.allow() // in the same instant, and yet of the new era
		r.wait(11 * time.Second)
		r.wantState(Open)
		if reason := r.Snapshot().Reason; !strings.HasPrefix(reason, "stalled: nothing finished or progressed for 10.") {
			t.Errorf("reason %q counts time from before the loss", reason)
		}
	})
}

func TestStalledAfterZeroIsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stallOff(), fails).run()
		r.users(1, Good)
		r.allow()
		r.wait(time.Hour)
		r.wantState(Closed)
		if r.timesAsked() != 0 {
			t.Error("asked although it is off")
		}
	})
}

func TestZombiesOfAnEarlierEraAreNoEvidence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), hangs).run()
		r.users(1, Good)
		zombie := r.allow()
		r.wait(time.Minute)
		r.wantState(Open)
		r.answers(passes)
		r.wait(5 * time.Minute)
		r.wantState(Closed)
		asked := r.timesAsked()
		r.answers(fails)
		r.wait(10 * time.Minute)
		r.wantState(Closed)
		if r.timesAsked() != asked {
			t.Error("asked because of a request that was lost before the breaker opened")
		}
		zombie.Start(Bad)
		zombie.End(false)
		if got := r.Snapshot().Window; got != (Tally{}) {
			t.Errorf("window %+v, expected no verdict of the earlier era", got)
		}
	})
}

// Whatever is under way and however it moves, a server that passes its synthetic requests is never called stalled.
func TestNoTrafficOpensAHealthyServer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 60).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, DefaultConfig(), passes).run()
			var under []Exchange
			for i, step := range steps {
				switch {
				case step == 0:
					under = append(under, r.allow())
				case step == 1 && len(under) > 0:
					under[i%len(under)].Start(Good)
				case step == 2 && len(under) > 0:
					under[i%len(under)].Progress()
				case step == 3 && len(under) > 0:
					under[i%len(under)].End(false)
				default:
					r.wait(time.Duration(step*step*step) * time.Second)
				}
			}
			r.wantState(Closed)
			r.wantHeard()
		})
	})
}

func TestTheLongestFirstByteIsForgottenAtLast(t *testing.T) {
	t.Parallel()
	l := longest{rotated: time.Minute}
	for _, step := range []struct{ now, took, want time.Duration }{
		{time.Minute, 4 * time.Minute, 4 * time.Minute},
		{12 * time.Minute, time.Second, 4 * time.Minute},
		{21 * time.Minute, time.Second, 4 * time.Minute},
		{23 * time.Minute, 2 * time.Second, 2 * time.Second},
		{2 * time.Hour, time.Second, 2 * time.Second}, // nobody asked meanwhile: nothing says that it has become faster
		{3 * time.Hour, time.Second, time.Second},
	} {
		l.see(step.took, step.now)
		if got := l.get(); got != step.want {
			t.Errorf("longest at %s is %s, expected %s", step.now, got, step.want)
		}
	}
}
