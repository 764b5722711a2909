package circuit

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAShapeMayBecomeKnownUnderWay says the shape once the request's body has been read: what finishes counts for it, and one that hangs is compared with it.
func TestAShapeMayBecomeKnownUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Settings{Config: DefaultConfig()})
		e, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		e.Shape(7)
		time.Sleep(time.Second)
		e.Start(Good)
		e.End(false)
		e.Shape(9) // too late: the slot may be somebody else's
		firsts := b.window.firstBytes()
		if got := firsts[7]; len(firsts) != 1 || got < 999*time.Millisecond {
			t.Errorf("first bytes %v, expected a second for shape 7 alone", firsts)
		}
	})
}
