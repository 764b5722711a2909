package health

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Effect says what a condition stands for. The condition itself moves nothing: whoever raises it also makes the move.
type Effect int

const (
	// EffectInforms changes nothing about serving.
	EffectInforms Effect = iota
	// EffectDegrades goes with a scope that serves, but not as it should.
	EffectDegrades
	// EffectWithholds goes with a scope that is not ready, or not ready again, while it lasts.
	EffectWithholds
	// EffectCondemns goes with a scope that is unhealthy.
	EffectCondemns
)

var effectNames = units.Names[Effect]{
	EffectInforms:   "informs",
	EffectDegrades:  "degrades",
	EffectWithholds: "withholds",
	EffectCondemns:  "condemns",
}

// EffectValues lists every value, in order.
func EffectValues() []Effect { return effectNames.Values() }

// String returns the word used in the documentation.
func (e Effect) String() string { return effectNames.Of(e) }

// MarshalText implements [encoding.TextMarshaler].
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }
