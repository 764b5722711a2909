package circuit

import (
	"encoding/json"
	"testing"
)

func TestStatesReadBackAsWritten(t *testing.T) {
	t.Parallel()
	words := map[State]string{Closed: "closed", Open: "open", HalfOpen: "half-open"}
	if len(words) != len(StateValues()) {
		t.Fatalf("%d words for %d states", len(words), len(StateValues()))
	}
	for i, s := range StateValues() {
		if int(s) != i {
			t.Errorf("StateValues()[%d] is %d", i, int(s))
		}
		text, err := json.Marshal(s)
		if err != nil || string(text) != `"`+words[s]+`"` {
			t.Errorf("%d is written %s (%v), expected %q", int(s), text, err, words[s])
		}
		var back State
		if err := json.Unmarshal(text, &back); err != nil || back != s {
			t.Errorf("%s reads back as %s (%v)", text, back, err)
		}
	}
	if got := State(len(StateValues())).String(); got != "State(3)" {
		t.Errorf("a state without a word is %q: is one missing from StateValues?", got)
	}
	var s State
	if err := s.UnmarshalText([]byte("ajar")); err == nil {
		t.Error("a state called ajar was read")
	}
}
