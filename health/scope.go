package health

import (
	"fmt"
	"slices"
	"time"
)

// scope is what has a state of its own: the backend as a whole, one model, and the pod, whose state is computed. The machine's lock guards it.
type scope struct {
	state      State
	since      time.Time
	reason     string
	given      bool        // a state that gives readiness was reached
	conditions []Condition // in the order in which they were raised
}

// move makes a transition if the table allows it; staying is allowed and does nothing.
func (s *scope) move(to State, at time.Time, reason string) (changed bool, err error) {
	if s.state == to {
		return false, nil
	}
	if !s.state.mayBecome(to) {
		return false, fmt.Errorf("from %s to %s: no such transition", s.state, to)
	}
	s.enter(to, at, reason)

	return true, nil
}

// enter takes on a state without asking the table.
func (s *scope) enter(to State, at time.Time, reason string) {
	s.state, s.since, s.reason = to, at, reason
	s.given = s.given || to.givesReadiness()
}

// raise adds the condition, or renews the text of one that is there.
func (s *scope) raise(condition Condition) (changed bool) {
	at := s.find(condition.Code)
	if at < 0 {
		s.conditions = append(s.conditions, condition)

		return true
	}
	changed = s.conditions[at].Text != condition.Text
	s.conditions[at].Text = condition.Text

	return changed
}

// clear removes the condition.
func (s *scope) clear(code Code) (changed bool) {
	at := s.find(code)
	if at < 0 {
		return false
	}
	s.conditions = slices.Delete(s.conditions, at, at+1)

	return true
}

func (s *scope) find(code Code) int {
	return slices.IndexFunc(s.conditions, func(c Condition) bool { return c.Code == code })
}

// model is the scope of one model.
type model struct {
	scope

	config ModelConfig
}

// shown lists the model's conditions for a snapshot. That it is unhealthy is a condition by itself, which nobody has to raise or clear.
func (m *model) shown() []Condition {
	shown := append([]Condition{}, m.conditions...) // an empty list, not null, in JSON
	if m.state == Unhealthy && m.find(CodeModelUnhealthy) < 0 {
		declared := declarations[CodeModelUnhealthy]
		shown = append(shown, Condition{Code: CodeModelUnhealthy, Severity: declared.Severity, Text: m.reason, Since: m.since})
	}

	return shown
}
