package circuit

import (
	"fmt"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// WhileOpen is what happens to users' requests while the breaker is open.
type WhileOpen int

const (
	// Reject refuses them at once, retryably.
	Reject WhileOpen = iota
	// Hold keeps them until the breaker closes or their time is up.
	Hold
)

// WhileOpenValues lists every value, in order.
func WhileOpenValues() []WhileOpen { return []WhileOpen{Reject, Hold} }

// String returns the word used in the configuration.
func (w WhileOpen) String() string {
	switch w {
	case Reject:
		return "reject"
	case Hold:
		return "hold"
	default:
		return fmt.Sprintf("WhileOpen(%d)", int(w))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (w WhileOpen) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (w *WhileOpen) UnmarshalText(text []byte) error {
	value, err := units.ParseName("while_open", text, WhileOpenValues())
	if err == nil {
		*w = value
	}

	return err
}
