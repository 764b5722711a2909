package circuit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPulseIsAtMostAGrainBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		now := func() time.Duration { return time.Since(began) }
		p := &pulse{grain: 500 * time.Millisecond}
		if p.last() != 0 {
			t.Error("it beats before it was started")
		}
		stop := p.start(now)
		for range 20 {
			<-time.After(170 * time.Millisecond)
			synctest.Wait()
			if behind := now() - p.last(); behind < 0 || behind > p.grain {
				t.Fatalf("%s behind at %s", behind, now())
			}
		}
		p.advance(now() + time.Second)
		p.advance(now())
		if p.last() != now()+time.Second {
			t.Error("time went back")
		}
		stop()
		p.advance(now() + time.Minute)
		if p.last() != 0 {
			t.Error("it beats after its end")
		}
	})
}
