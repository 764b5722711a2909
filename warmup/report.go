package warmup

import (
	"fmt"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
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
	// Requests counts the synthetic inferences that were answered, Busy those that the backend refused for lack of room.
	Requests int           `json:"requests"`
	Busy     int           `json:"busy"`
	Steps    []StepReport  `json:"steps"`
	Models   []ModelReport `json:"models"`
	Shapes   []ShapeReport `json:"shapes"`
}

// StepReport is one step of a run.
type StepReport struct {
	Name    string        `json:"name"`
	Kind    Kind          `json:"kind"`
	State   StepState     `json:"state"`
	Tries   int           `json:"tries"`
	Started time.Time     `json:"started,omitzero"`
	Took    time.Duration `json:"took_ns"`
	Error   string        `json:"error,omitempty"`
}

// ModelReport is what a run did for one model.
type ModelReport struct {
	Name    string   `json:"name"`
	Outcome Outcome  `json:"outcome"`
	Reasons []Reason `json:"reasons,omitempty"`
	// Text explains the reasons.
	Text string `json:"text,omitempty"`
}

// ShapeReport is what was seen of one shape.
type ShapeReport struct {
	Step        string     `json:"step"`
	Model       string     `json:"model"`
	Batch       int        `json:"batch"`
	Concurrency int        `json:"concurrency"`
	State       ShapeState `json:"state"`
	Text        string     `json:"text,omitempty"`
	// Seen tells what the requests at this concurrency showed.
	Seen steady.Report `json:"seen"`
	// Rounds counts the verifications.
	Rounds int `json:"rounds"`
}

// Shape is the shape as logs and errors write it.
func (s ShapeReport) Shape() string {
	if s.Concurrency > 1 {
		return fmt.Sprintf("batch=%d concurrency=%d", s.Batch, s.Concurrency)
	}

	return fmt.Sprintf("batch=%d", s.Batch)
}

// String is one line for a log.
func (s ShapeReport) String() string {
	return fmt.Sprintf("%s %s: %v, n=%d level=%v first=%v", s.Model, s.Shape(), s.State, s.Seen.N,
		s.Seen.Level.Round(10*time.Microsecond), s.Seen.First.Round(10*time.Microsecond))
}

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

// Outcome is what a run came to for one model.
type Outcome int

const (
	// Pending means that the run is not through with the model.
	Pending Outcome = iota
	// Warm means that every shape has converged.
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

// Reason is why an outcome is not plainly warm, in the words of the condition codes.
type Reason int

const (
	// ReasonNotConverged means that a shape's latency did not settle within its bound.
	ReasonNotConverged Reason = iota
	// ReasonOptionalFailed means that an optional step failed.
	ReasonOptionalFailed
	// ReasonWarmFailed means that a step failed.
	ReasonWarmFailed
	// ReasonWarmedNothing means that no request was sent for the model.
	ReasonWarmedNothing
	// ReasonCredentialsRefused means that the backend answered 401 or 403.
	ReasonCredentialsRefused
)

var reasonNames = units.Names[Reason]{
	ReasonNotConverged:       "not_converged",
	ReasonOptionalFailed:     "optional_failed",
	ReasonWarmFailed:         "warm_failed",
	ReasonWarmedNothing:      "warmed_nothing",
	ReasonCredentialsRefused: "credentials_refused",
}

// ReasonValues lists every value, in order.
func ReasonValues() []Reason { return reasonNames.Values() }

// String returns the condition code.
func (r Reason) String() string { return reasonNames.Of(r) }

// MarshalText implements [encoding.TextMarshaler].
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// ShapeState is how far a shape is.
type ShapeState int

const (
	// ShapeWaiting means that its turn has not come.
	ShapeWaiting ShapeState = iota
	// ShapeWarming means that it gets requests, or waits for its verification.
	ShapeWarming
	// ShapeConverged means one steady level, verified.
	ShapeConverged
	// ShapeMultimodal means a steady distribution of several levels, verified.
	ShapeMultimodal
	// ShapeNotConverged means that it did not settle within its bound.
	ShapeNotConverged
	// ShapeCounted means that it got the number of requests that was asked for; nothing was concluded from them.
	ShapeCounted
	// ShapeRefused means that the server takes no requests of this shape, which was only a guess.
	ShapeRefused
	// ShapeFailed means that a request of this shape failed.
	ShapeFailed
)

var shapeStateNames = units.Names[ShapeState]{
	ShapeWaiting:      "waiting",
	ShapeWarming:      "warming",
	ShapeConverged:    "converged",
	ShapeMultimodal:   "multimodal",
	ShapeNotConverged: "not_converged",
	ShapeCounted:      "counted",
	ShapeRefused:      "refused",
	ShapeFailed:       "failed",
}

// ShapeStateValues lists every value, in order.
func ShapeStateValues() []ShapeState { return shapeStateNames.Values() }

// String returns the word used in reports.
func (s ShapeState) String() string { return shapeStateNames.Of(s) }

// MarshalText implements [encoding.TextMarshaler].
func (s ShapeState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// warm says whether nothing is left to be done for the shape.
func (s ShapeState) warm() bool {
	return s == ShapeConverged || s == ShapeMultimodal || s == ShapeCounted
}
