package health

import (
	"fmt"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Severity says how much a condition matters to the person who reads it.
type Severity int

const (
	// SeverityNotice is worth knowing and needs nobody.
	SeverityNotice Severity = iota
	// SeverityWarning deserves a look: users may be served worse than they could be.
	SeverityWarning
	// SeverityCritical needs a person, or users are not served.
	SeverityCritical
)

// SeverityValues lists every value, in order.
func SeverityValues() []Severity {
	return []Severity{SeverityNotice, SeverityWarning, SeverityCritical}
}

// String returns the word used in endpoints and logs.
func (s Severity) String() string {
	switch s {
	case SeverityNotice:
		return "notice"
	case SeverityWarning:
		return "warning"
	case SeverityCritical:
		return "critical"
	default:
		return fmt.Sprintf("Severity(%d)", int(s))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Severity) UnmarshalText(text []byte) error {
	value, err := units.ParseName("severity", text, SeverityValues())
	if err == nil {
		*s = value
	}

	return err
}
