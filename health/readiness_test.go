package health

import (
	"fmt"
	"testing"
)

// TestReadiness has a row for each policy and a column for each state, in order: y is 200, n is 503.
func TestReadiness(t *testing.T) {
	for _, test := range []struct {
		given     bool
		when      ReadyWhen
		restart   Reaction
		unhealthy Reaction
		// starting idle warming ready degraded unhealthy cold draining stopped
		expected string
	}{
		{false, WhenWarm, Withdraw, Withdraw, "nynyynnnn"},
		{false, WhenWarm, Withdraw, Keep, "nynyynnnn"},
		{false, WhenWarm, Keep, Withdraw, "nynyynnnn"},
		{false, WhenWarm, Keep, Keep, "nynyynnnn"},
		{false, WhenListening, Withdraw, Withdraw, "yyyyynynn"},
		{false, WhenListening, Withdraw, Keep, "yyyyyyynn"},
		{false, WhenListening, Keep, Withdraw, "yyyyynynn"},
		{false, WhenListening, Keep, Keep, "yyyyyyynn"},
		{true, WhenWarm, Withdraw, Withdraw, "nynyynnnn"},
		{true, WhenWarm, Withdraw, Keep, "nynyyynnn"},
		{true, WhenWarm, Keep, Withdraw, "yyyyynynn"},
		{true, WhenWarm, Keep, Keep, "yyyyyyynn"},
		{true, WhenListening, Withdraw, Withdraw, "yyyyynnnn"},
		{true, WhenListening, Withdraw, Keep, "yyyyyynnn"},
		{true, WhenListening, Keep, Withdraw, "yyyyynynn"},
		{true, WhenListening, Keep, Keep, "yyyyyyynn"},
	} {
		policy := ReadinessConfig{ReadyWhen: test.when, OnRestart: test.restart, OnUnhealthy: test.unhealthy}
		t.Run(fmt.Sprintf("given %v, when %s, restart %s, unhealthy %s", test.given, test.when, test.restart, test.unhealthy), func(t *testing.T) {
			got := ""
			for _, state := range StateValues() {
				if policy.answers(state, test.given) {
					got += "y"
				} else {
					got += "n"
				}
			}
			if got != test.expected {
				t.Errorf("got %s, expected %s for %v", got, test.expected, StateValues())
			}
			if policy.answers(State(99), test.given) {
				t.Error("a state that does not exist is ready")
			}
		})
	}
}
