package circuit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Settings{Config: DefaultConfig()})
		time.Sleep(time.Minute)
		if got := b.Idle(); got != time.Minute {
			t.Errorf("nobody ever came: idle for %v", got)
		}
		e, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := b.Idle(); got != 0 {
			t.Errorf("a request is under way: idle for %v", got)
		}
		e.Start(Good)
		e.End(false)
		time.Sleep(3 * time.Second)
		if got := b.Idle(); got < 3*time.Second || got > 4*time.Second {
			t.Errorf("idle for %v, expected 3s", got)
		}
	})
}
