package warmup

import (
	"fmt"
	"slices"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// Report is what a run of the plan has done so far. It shares nothing with the run: whoever has it may keep it.
type Report struct {
	// Run counts the runs, the first is 1; 0 means that none has begun, and the rest is empty.
	Run     int       `json:"run"`
	Running bool      `json:"running"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Error says why the run failed, or was given up.
	Error string `json:"error,omitempty"`
	// ServerType is what the backend was found, or configured, to be.
	ServerType string `json:"server_type,omitempty"`
	// Remaining is how long the rest will take, by what was measured so far; 0 when nobody can say.
	Remaining time.Duration `json:"remaining_ns"`
	// WaitingFor says what of the backend is being waited for.
	WaitingFor string `json:"waiting_for,omitempty"`
	// PutOff says why requests wait for a calm machine, with the trigger "calm".
	PutOff string `json:"put_off,omitempty"`
	// GPUTime is the time in which at least one synthetic request of this run was computing, its background included; GPUTimeInAll that of all runs and checks.
	GPUTime      time.Duration `json:"gpu_time_ns"`
	GPUTimeInAll time.Duration `json:"gpu_time_in_all_ns"`
	// Background is how far that is which is warmed after the run has ended.
	Background BackgroundReport `json:"background"`
	// Requests counts the synthetic inferences that were answered, Busy those that the backend refused for lack of room.
	Requests int           `json:"requests"`
	Busy     int           `json:"busy"`
	Steps    []StepReport  `json:"steps"`
	Models   []ModelReport `json:"models"`
	Shapes   []ShapeReport `json:"shapes"`
}

// BackgroundReport is what is warmed while users are served already.
type BackgroundReport struct {
	Running bool `json:"running"`
	// Left counts the shapes that it is not through with; those of a step that it has not come to are not known yet.
	Left int `json:"left"`
	// PutOff says why it waits.
	PutOff string `json:"put_off,omitempty"`
}

// StepReport is one step of a run.
type StepReport struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Background steps run while users are served already.
	Background bool          `json:"background,omitempty"`
	State      StepState     `json:"state"`
	Tries      int           `json:"tries"`
	Started    time.Time     `json:"started,omitzero"`
	Took       time.Duration `json:"took_ns"`
	Error      string        `json:"error,omitempty"`
	// Pages says what a prefetch has read; nil in any other step.
	Pages *pages.Report `json:"pages,omitempty"`
}

// ModelReport is what a run did for one model.
type ModelReport struct {
	Name    string   `json:"name"`
	Outcome Outcome  `json:"outcome"`
	Reasons []Reason `json:"reasons,omitempty"`
	// Text explains the reasons.
	Text string `json:"text,omitempty"`
}

// Unsettled says whether the model can serve and is not as warm as is required, so that the policy not_converged decides.
func (m ModelReport) Unsettled() bool {
	return m.Outcome == Degraded && (slices.Contains(m.Reasons, ReasonNotConverged) || slices.Contains(m.Reasons, ReasonGPUTimeSpent))
}

// ShapeReport is what was seen of one shape.
type ShapeReport struct {
	Step        string        `json:"step"`
	Model       string        `json:"model"`
	Of          backend.Shape `json:"shape"`
	Concurrency int           `json:"concurrency"`
	// Background shapes are warmed while users are served already.
	Background bool       `json:"background,omitempty"`
	State      ShapeState `json:"state"`
	Text       string     `json:"text,omitempty"`
	// Seen tells what the requests at this concurrency showed: by the time to the first token where they streamed, else by that to the whole answer.
	Seen steady.Report `json:"seen"`
	// Gaps tells of the time between tokens; nil where nothing streamed.
	Gaps *steady.Report `json:"gaps,omitempty"`
	// Slowest is the longest that a whole answer took.
	Slowest time.Duration `json:"slowest_answer_ns"`
	// Rounds counts the verifications.
	Rounds int `json:"rounds"`
}

// Shape is the shape as logs and errors write it.
func (s ShapeReport) Shape() string {
	if s.Concurrency > 1 {
		return fmt.Sprintf("%v concurrency=%d", s.Of, s.Concurrency)
	}

	return s.Of.String()
}

// String is one line for a log.
func (s ShapeReport) String() string {
	text := fmt.Sprintf("%s %s: %v, n=%d level=%v first=%v", s.Model, s.Shape(), s.State, s.Seen.N,
		s.Seen.Level.Round(10*time.Microsecond), s.Seen.First.Round(10*time.Microsecond))
	if s.Gaps != nil {
		text += fmt.Sprintf(" between_tokens=%v", s.Gaps.Level.Round(10*time.Microsecond))
	}

	return text
}
