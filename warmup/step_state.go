package warmup

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// StepState is how far a step is.
type StepState int

const (
	// StepWaiting means that what it needs has not ended yet.
	StepWaiting StepState = iota
	// StepRunning means that it has begun.
	StepRunning
	// StepSucceeded means that it did what it should, for every model it was for.
	StepSucceeded
	// StepFailed means that it failed for at least one model.
	StepFailed
	// StepSkipped means that what it needs has failed.
	StepSkipped
)

var stepStateNames = units.Names[StepState]{
	StepWaiting:   "waiting",
	StepRunning:   "running",
	StepSucceeded: "succeeded",
	StepFailed:    "failed",
	StepSkipped:   "skipped",
}

// StepStateValues lists every value, in order.
func StepStateValues() []StepState { return stepStateNames.Values() }

// String returns the word used in reports.
func (s StepState) String() string { return stepStateNames.Of(s) }

// MarshalText implements [encoding.TextMarshaler].
func (s StepState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
