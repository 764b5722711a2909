package steady

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Result says what a Detector found.
type Result int

const (
	// Undecided means that more latencies are needed.
	Undecided Result = iota
	// Converged means one steady level.
	Converged
	// Multimodal means a steady distribution with more than one level, such as a server that batches.
	Multimodal
	// NotConverged means that the bound was reached without a steady distribution.
	NotConverged
)

var resultNames = units.Names[Result]{
	Undecided:    "undecided",
	Converged:    "converged",
	Multimodal:   "multimodal",
	NotConverged: "not_converged",
}

// ResultValues lists every value, in order.
func ResultValues() []Result { return resultNames.Values() }

// Steady says whether the series ended in a steady distribution.
func (r Result) Steady() bool { return r == Converged || r == Multimodal }

// String returns the word used in reports.
func (r Result) String() string { return resultNames.Of(r) }

// MarshalText implements [encoding.TextMarshaler].
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
