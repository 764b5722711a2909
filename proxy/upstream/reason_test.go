package upstream

import "testing"

func TestReasonsHaveWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, reason := range ReasonValues() {
		text, err := reason.MarshalText()
		if err != nil || string(text) != reason.String() || seen[reason.String()] {
			t.Errorf("%d: text %q, error %v", int(reason), text, err)
		}
		seen[reason.String()] = true
	}
	if beyond := Reason(len(ReasonValues())); len(seen) == 0 || beyond.String() != "Reason(5)" {
		t.Errorf("%s is missing from its values", beyond)
	}
}
