package warmup

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
)

// Event is progress of a run.
type Event struct {
	Kind EventKind
	At   time.Time
	// Step is set for StepStarted, StepEnded and Prefetching; Error for a step that failed, and for Waiting.
	Step  string
	Error error
	// Text is set for PutOff.
	Text string
	// Models is set for ModelsFound.
	Models []string
	// Model is set for ModelEnded and BackgroundEnded.
	Model ModelReport
	// Pages is set for Prefetching, and for StepEnded of a step that did.
	Pages *pages.Report
}
