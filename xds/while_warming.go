package xds

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// WhileWarming is what those who follow us are told of our endpoint while the backend is not warm.
type WhileWarming int

const (
	// Hold tells them to send: early requests are held.
	Hold WhileWarming = iota
	// Omit keeps the endpoint back until the backend is warm.
	Omit
)

var whileWarmingNames = units.Names[WhileWarming]{
	Hold: "hold",
	Omit: "omit",
}

// WhileWarmingValues lists every value, in order.
func WhileWarmingValues() []WhileWarming { return whileWarmingNames.Values() }

// String returns the word used in the configuration.
func (w WhileWarming) String() string { return whileWarmingNames.Of(w) }

// MarshalText implements [encoding.TextMarshaler].
func (w WhileWarming) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (w *WhileWarming) UnmarshalText(text []byte) error {
	return whileWarmingNames.Parse("serve_while_warming", text, w)
}
