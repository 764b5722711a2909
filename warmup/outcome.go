package warmup

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Outcome is what a run came to for one model.
type Outcome int

const (
	// Pending means that the run is not through with the model.
	Pending Outcome = iota
	// Warm means that every shape has converged; a reason may still inform, as workers_unknown does.
	Warm
	// Degraded means that it can serve, with the reasons given: not_converged, whose policy is the caller's, or optional_failed.
	Degraded
	// Failed means that a step it needs has failed.
	Failed
	// Unwarmed means that its server says it is ready, and that nothing was done to make it warm.
	Unwarmed
)

var outcomeNames = units.Names[Outcome]{
	Pending:  "pending",
	Warm:     "warm",
	Degraded: "degraded",
	Failed:   "failed",
	Unwarmed: "unwarmed",
}

// OutcomeValues lists every value, in order.
func OutcomeValues() []Outcome { return outcomeNames.Values() }

// String returns the word used in reports.
func (o Outcome) String() string { return outcomeNames.Of(o) }

// MarshalText implements [encoding.TextMarshaler].
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }
