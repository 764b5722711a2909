package steady

import "fmt"

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

// ResultValues lists every value, in order.
func ResultValues() []Result { return []Result{Undecided, Converged, Multimodal, NotConverged} }

// Steady says whether the series ended in a steady distribution.
func (r Result) Steady() bool { return r == Converged || r == Multimodal }

// String returns the word used in reports.
func (r Result) String() string {
	switch r {
	case Undecided:
		return "undecided"
	case Converged:
		return "converged"
	case Multimodal:
		return "multimodal"
	case NotConverged:
		return "not_converged"
	default:
		return fmt.Sprintf("Result(%d)", int(r))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
