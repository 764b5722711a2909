package health

import (
	"fmt"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Reaction says what becomes of readiness that was given once.
type Reaction int

const (
	// Withdraw takes readiness back.
	Withdraw Reaction = iota
	// Keep leaves readiness as it was.
	Keep
)

// ReactionValues lists every value, in order.
func ReactionValues() []Reaction { return []Reaction{Withdraw, Keep} }

// String returns the word used in the configuration.
func (r Reaction) String() string {
	switch r {
	case Withdraw:
		return "withdraw"
	case Keep:
		return "keep"
	default:
		return fmt.Sprintf("Reaction(%d)", int(r))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (r Reaction) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Reaction) UnmarshalText(text []byte) error {
	value, err := units.ParseName("readiness reaction", text, ReactionValues())
	if err == nil {
		*r = value
	}

	return err
}
