package circuit

import (
	"encoding/json"
	"testing"
)

func TestVerdictsReadBackAsWritten(t *testing.T) {
	t.Parallel()
	words := map[Verdict]string{None: "none", Good: "good", Bad: "bad"}
	if len(words) != len(VerdictValues()) {
		t.Fatalf("%d words for %d verdicts", len(words), len(VerdictValues()))
	}
	for i, v := range VerdictValues() {
		if int(v) != i {
			t.Errorf("VerdictValues()[%d] is %d", i, int(v))
		}
		text, err := json.Marshal(v)
		if err != nil || string(text) != `"`+words[v]+`"` {
			t.Errorf("%d is written %s (%v), expected %q", int(v), text, err, words[v])
		}
		var back Verdict
		if err := json.Unmarshal(text, &back); err != nil || back != v {
			t.Errorf("%s reads back as %s (%v)", text, back, err)
		}
	}
	if got := Verdict(len(VerdictValues())).String(); got != "Verdict(3)" {
		t.Errorf("a verdict without a word is %q: is one missing from VerdictValues?", got)
	}
	var v Verdict
	if err := v.UnmarshalText([]byte("meh")); err == nil {
		t.Error("a verdict called meh was read")
	}
}
