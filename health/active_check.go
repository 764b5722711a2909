package health

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// ActiveCheck is what an active check consists of.
type ActiveCheck int

const (
	// CheckAuto asks an endpoint, and confirms a suspicion with a synthetic request.
	CheckAuto ActiveCheck = iota
	// CheckInference sends a synthetic request each time.
	CheckInference
	// CheckEndpoint asks an endpoint and nothing else.
	CheckEndpoint
	// CheckNone asks nothing; only users' traffic and the connection to the backend are watched.
	CheckNone
)

var activeCheckNames = units.Names[ActiveCheck]{
	CheckAuto:      "auto",
	CheckInference: "inference",
	CheckEndpoint:  "endpoint",
	CheckNone:      "none",
}

// ActiveCheckValues lists every value, in order.
func ActiveCheckValues() []ActiveCheck { return activeCheckNames.Values() }

// String returns the word used in the configuration.
func (c ActiveCheck) String() string { return activeCheckNames.Of(c) }

// MarshalText implements [encoding.TextMarshaler].
func (c ActiveCheck) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *ActiveCheck) UnmarshalText(text []byte) error {
	return activeCheckNames.Parse("active_check", text, c)
}
