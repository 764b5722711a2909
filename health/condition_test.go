package health

import (
	"regexp"
	"slices"
	"testing"
)

func TestCodesAreDeclared(t *testing.T) {
	shape := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	for _, code := range CodeValues() {
		declared, ok := code.Declared()
		if !ok || !shape.MatchString(string(code)) || declared.Meaning == "" {
			t.Errorf("%q is declared as %+v, %v", code, declared, ok)
		}
		if !slices.Contains(SeverityValues(), declared.Severity) || !slices.Contains(EffectValues(), declared.Effect) {
			t.Errorf("%q has a severity or an effect that does not exist: %+v", code, declared)
		}
	}
	for _, promised := range []Code{
		"stalled", "users_failing", "fatal_backend", "warm_failed", "warmed_nothing", "not_converged", "model_unhealthy",
		"credentials_refused", "not_recognised", "backend_restarted", "traffic_bypasses", "fell_back_to_cpu",
	} {
		if _, ok := promised.Declared(); !ok {
			t.Errorf("%q is promised to users and not declared", promised)
		}
	}
	if _, ok := Code("nonsense").Declared(); ok {
		t.Error("a code that nobody declared exists")
	}
}
