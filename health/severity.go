package health

import "github.com/pilotlight-proxy/pilotlight/internal/units"

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

var severityNames = units.Names[Severity]{
	SeverityNotice:   "notice",
	SeverityWarning:  "warning",
	SeverityCritical: "critical",
}

// SeverityValues lists every value, in order.
func SeverityValues() []Severity { return severityNames.Values() }

// String returns the word used in endpoints and logs.
func (s Severity) String() string { return severityNames.Of(s) }

// MarshalText implements [encoding.TextMarshaler].
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Severity) UnmarshalText(text []byte) error { return severityNames.Parse("severity", text, s) }
