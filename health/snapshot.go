package health

import (
	"slices"
	"time"
)

// Snapshot is everything the machine knows at one moment. Its slices are shared by all who ask for it and never change: treat them as read only.
type Snapshot struct {
	// State is the pod's.
	State  State     `json:"state"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
	// Ready is what /readyz answers: the state and the readiness policy together.
	Ready   bool            `json:"ready"`
	Backend ScopeSnapshot   `json:"backend"`
	Models  []ModelSnapshot `json:"models"`
	// Conditions are those of the backend as a whole; each model has its own beside it.
	Conditions []Condition `json:"conditions"`
	// Moves are the last 64 changes of the pod's state, the oldest first.
	Moves []Move `json:"moves"`
}

// ScopeSnapshot is the state of the backend as a whole.
type ScopeSnapshot struct {
	State  State     `json:"state"`
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// ModelSnapshot is the state of one model.
type ModelSnapshot struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
	State    State  `json:"state"`
	// Ready takes the backend as a whole into account: no model is ready while it drains or is unhealthy.
	Ready      bool        `json:"ready"`
	Since      time.Time   `json:"since"`
	Reason     string      `json:"reason"`
	Conditions []Condition `json:"conditions"`
}

// Model returns the snapshot of one model, and whether it is known.
func (s Snapshot) Model(name string) (ModelSnapshot, bool) {
	at := slices.IndexFunc(s.Models, func(m ModelSnapshot) bool { return m.Name == name })
	if at < 0 {
		return ModelSnapshot{}, false
	}

	return s.Models[at], true
}

// Codes lists the codes of all conditions, the backend's and the models', each once, in order.
func (s Snapshot) Codes() []Code {
	var codes []Code
	collect := func(conditions []Condition) {
		for _, condition := range conditions {
			codes = append(codes, condition.Code)
		}
	}
	collect(s.Conditions)
	for _, m := range s.Models {
		collect(m.Conditions)
	}
	slices.Sort(codes)

	return slices.Compact(codes)
}

// texts lists all conditions for people, the backend's and the models'.
func (s Snapshot) texts() []string {
	texts := []string{}
	collect := func(scope string, conditions []Condition) {
		for _, condition := range conditions {
			texts = append(texts, scope+string(condition.Code)+": "+condition.Text)
		}
	}
	collect("", s.Conditions)
	for _, m := range s.Models {
		collect("model "+m.Name+": ", m.Conditions)
	}

	return texts
}
