package health

import (
	"fmt"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

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

// ActiveCheckValues lists every value, in order.
func ActiveCheckValues() []ActiveCheck {
	return []ActiveCheck{CheckAuto, CheckInference, CheckEndpoint, CheckNone}
}

// String returns the word used in the configuration.
func (c ActiveCheck) String() string {
	switch c {
	case CheckAuto:
		return "auto"
	case CheckInference:
		return "inference"
	case CheckEndpoint:
		return "endpoint"
	case CheckNone:
		return "none"
	default:
		return fmt.Sprintf("ActiveCheck(%d)", int(c))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (c ActiveCheck) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *ActiveCheck) UnmarshalText(text []byte) error {
	value, err := units.ParseName("active_check", text, ActiveCheckValues())
	if err == nil {
		*c = value
	}

	return err
}
