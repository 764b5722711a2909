package circuit

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Verdict is what one exchange says about the backend.
type Verdict int

const (
	// None says nothing about the backend: the client left, we refused, the server said "busy". It is counted, and judged never.
	None Verdict = iota
	// Good says that the backend did its work. A timely answer that blames the client (404) is good.
	Good
	// Bad says that the backend failed, or that a time limit of ours ran out on it.
	Bad
)

var verdictNames = units.Names[Verdict]{
	None: "none",
	Good: "good",
	Bad:  "bad",
}

// VerdictValues lists every verdict, in order.
func VerdictValues() []Verdict { return verdictNames.Values() }

// String returns the word used in answers, logs and metrics.
func (v Verdict) String() string { return verdictNames.Of(v) }

// MarshalText implements [encoding.TextMarshaler].
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (v *Verdict) UnmarshalText(text []byte) error { return verdictNames.Parse("verdict", text, v) }
