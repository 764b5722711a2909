package circuit

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// WhileOpen is what happens to users' requests while the breaker is open.
type WhileOpen int

const (
	// Reject refuses them at once, retryably.
	Reject WhileOpen = iota
	// Hold keeps them until the breaker closes or their time is up.
	Hold
)

var whileOpenNames = units.Names[WhileOpen]{
	Reject: "reject",
	Hold:   "hold",
}

// WhileOpenValues lists every value, in order.
func WhileOpenValues() []WhileOpen { return whileOpenNames.Values() }

// String returns the word used in the configuration.
func (w WhileOpen) String() string { return whileOpenNames.Of(w) }

// MarshalText implements [encoding.TextMarshaler].
func (w WhileOpen) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (w *WhileOpen) UnmarshalText(text []byte) error {
	return whileOpenNames.Parse("while_open", text, w)
}
