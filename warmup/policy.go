package warmup

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Policy says what to do with a backend that is not as warm as was asked for.
type Policy int

const (
	// StayUnready withholds readiness and tries again.
	StayUnready Policy = iota
	// Serve lets traffic in, as degraded, with the reason.
	Serve
)

var policyNames = units.Names[Policy]{
	StayUnready: "stay-unready",
	Serve:       "serve",
}

// PolicyValues lists every value, in order.
func PolicyValues() []Policy { return policyNames.Values() }

// String returns the word used in the configuration.
func (p Policy) String() string { return policyNames.Of(p) }

// MarshalText implements [encoding.TextMarshaler].
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Policy) UnmarshalText(text []byte) error { return policyNames.Parse("warmup policy", text, p) }
