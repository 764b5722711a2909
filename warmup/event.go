package warmup

import "time"

// Event is progress of a run.
type Event struct {
	Kind EventKind
	At   time.Time
	// Step is set for StepStarted and StepEnded; Error for a step that failed, and for Waiting.
	Step  string
	Error error
	// Text is set for PutOff.
	Text string
	// Models is set for ModelsFound.
	Models []string
	// Model is set for ModelEnded and BackgroundEnded.
	Model ModelReport
}
