package warmup

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// EventKind is what happened in a run.
type EventKind int

const (
	// StepStarted means that a step began to do something.
	StepStarted EventKind = iota
	// StepEnded means that a step ended, for every model.
	StepEnded
	// BackendUp means that the backend answered for the first time in this run, whatever it answered.
	BackendUp
	// Waiting means that what is being waited for has changed: Error says what, and is nil once it has come.
	Waiting
	// ModelsFound means that the models of this run are known.
	ModelsFound
	// ModelEnded means that the run is through with a model, though perhaps not with others.
	ModelEnded
	// PutOff means that the reason has changed for which requests wait for a calm machine: Text says what it is, and is empty once they do not.
	PutOff
	// BackgroundEnded means that the background is through with a model.
	BackgroundEnded
	// Prefetching means that a step reads files: Pages says how far it is.
	Prefetching
)

var eventKindNames = units.Names[EventKind]{
	StepStarted:     "step_started",
	StepEnded:       "step_ended",
	BackendUp:       "backend_up",
	Waiting:         "waiting",
	ModelsFound:     "models_found",
	ModelEnded:      "model_ended",
	PutOff:          "put_off",
	BackgroundEnded: "background_ended",
	Prefetching:     "prefetching",
}

// EventKindValues lists every value, in order.
func EventKindValues() []EventKind { return eventKindNames.Values() }

// String returns a word for logs.
func (k EventKind) String() string { return eventKindNames.Of(k) }

// MarshalText implements [encoding.TextMarshaler].
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
