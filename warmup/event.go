package warmup

import "time"

// EventKind is what happened in a run.
type EventKind int

const (
	// StepStarted means that a step began to do something.
	StepStarted EventKind = iota
	// StepEnded means that a step ended, for every model.
	StepEnded
	// BackendUp means that the backend answered for the first time in this run, whatever it answered.
	BackendUp
	// ModelsFound means that the models of this run are known.
	ModelsFound
	// ModelEnded means that the run is through with a model, though perhaps not with others.
	ModelEnded
)

// EventKindValues lists every value, in order.
func EventKindValues() []EventKind {
	return []EventKind{StepStarted, StepEnded, BackendUp, ModelsFound, ModelEnded}
}

// String returns a word for logs.
func (k EventKind) String() string {
	return word("EventKind", int(k), "step_started", "step_ended", "backend_up", "models_found", "model_ended")
}

// MarshalText implements [encoding.TextMarshaler].
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Event is progress of a run.
type Event struct {
	Kind EventKind
	At   time.Time
	// Step is set for StepStarted and StepEnded; Error for a step that failed.
	Step  string
	Error error
	// Models is set for ModelsFound.
	Models []string
	// Model is set for ModelEnded.
	Model ModelReport
}
