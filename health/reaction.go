package health

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Reaction says what becomes of readiness that was given once.
type Reaction int

const (
	// Withdraw takes readiness back.
	Withdraw Reaction = iota
	// Keep leaves readiness as it was.
	Keep
)

var reactionNames = units.Names[Reaction]{
	Withdraw: "withdraw",
	Keep:     "keep",
}

// ReactionValues lists every value, in order.
func ReactionValues() []Reaction { return reactionNames.Values() }

// String returns the word used in the configuration.
func (r Reaction) String() string { return reactionNames.Of(r) }

// MarshalText implements [encoding.TextMarshaler].
func (r Reaction) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Reaction) UnmarshalText(text []byte) error {
	return reactionNames.Parse("readiness reaction", text, r)
}
