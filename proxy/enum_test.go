package proxy

import (
	"encoding"
	"fmt"
	"strings"
	"testing"
)

type word interface {
	fmt.Stringer
	encoding.TextMarshaler
}

func TestEveryEnumHasItsWords(t *testing.T) {
	t.Parallel()
	walk(t, ModeValues(), Mode(len(ModeValues())))
	walk(t, OutcomeValues(), Outcome(len(OutcomeValues())))
	walk(t, HeldPolicyValues(), HeldPolicy(len(HeldPolicyValues())))
	walk(t, TransportValues(), Transport(len(TransportValues())))
	walk(t, ReasonValues(), Reason(len(ReasonValues())))
	walk(t, ForwardedValues(), Forwarded(len(ForwardedValues())))
	walk(t, TargetValues(), Target(len(TargetValues())))
	if len(OutcomeValues()) != len(outcomes) {
		t.Errorf("%d outcomes are counted, there are %d", len(outcomes), len(OutcomeValues()))
	}
	for _, policy := range HeldPolicyValues() {
		var read HeldPolicy
		if err := read.UnmarshalText([]byte(policy.String())); err != nil || read != policy {
			t.Errorf("%s reads back as %s, %v", policy, read, err)
		}
	}
	for _, reason := range ReasonValues() {
		if facts := reasons[reason]; facts.name == "" || facts.status < 400 || facts.grpc == 0 || facts.title == "" {
			t.Errorf("%s lacks facts: %+v", reason, facts)
		}
	}
}

// walk fails for a value without a word of its own, and for a value beyond the last that has one.
func walk[T interface {
	comparable
	word
}](t *testing.T, values []T, beyond T) {
	t.Helper()
	seen := map[string]bool{}
	for _, value := range values {
		text, err := value.MarshalText()
		if err != nil || string(text) != value.String() || strings.ContainsAny(value.String(), "( ") || seen[value.String()] {
			t.Errorf("%T %v: text %q, error %v", value, value, text, err)
		}
		seen[value.String()] = true
	}
	if !strings.Contains(beyond.String(), "(") {
		t.Errorf("%T: %s is missing from its values", beyond, beyond)
	}
}
