package circuit

import (
	"fmt"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

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

// VerdictValues lists every verdict, in order.
func VerdictValues() []Verdict { return []Verdict{None, Good, Bad} }

// String returns the word used in answers, logs and metrics.
func (v Verdict) String() string {
	switch v {
	case None:
		return "none"
	case Good:
		return "good"
	case Bad:
		return "bad"
	default:
		return fmt.Sprintf("Verdict(%d)", int(v))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (v *Verdict) UnmarshalText(text []byte) error {
	value, err := units.ParseName("verdict", text, VerdictValues())
	if err == nil {
		*v = value
	}

	return err
}
