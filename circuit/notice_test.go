package circuit

import "testing"

func TestFoldedKeepsWhatMatters(t *testing.T) {
	t.Parallel()
	got := folded([]notice{
		{from: Closed, to: Open, text: "a"},
		{failing: true, on: true, text: "b"},
		{from: Open, to: HalfOpen, text: "c"},
		{failing: true, text: "d"},
	})
	if len(got) != 2 || got[0] != (notice{failing: true, text: "d"}) || got[1] != (notice{from: Closed, to: HalfOpen, text: "c"}) {
		t.Errorf("folded to %+v", got)
	}
	if got := folded([]notice{{from: Closed, to: Open}, {from: Open, to: Closed}}); len(got) != 0 {
		t.Errorf("there and back folded to %+v, expected nothing", got)
	}
}
