package circuit

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// State says whether the backend may be called. The words are the electrical ones: current flows while the breaker is closed.
type State int

const (
	// Closed lets every exchange through.
	Closed State = iota
	// Open lets none through.
	Open
	// HalfOpen lets every exchange through that the gate lets through, and judges the first ones.
	HalfOpen
)

var stateNames = units.Names[State]{
	Closed:   "closed",
	Open:     "open",
	HalfOpen: "half-open",
}

// StateValues lists every state, in order.
func StateValues() []State { return stateNames.Values() }

// String returns the word used in answers, logs and metrics.
func (s State) String() string { return stateNames.Of(s) }

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *State) UnmarshalText(text []byte) error { return stateNames.Parse("circuit state", text, s) }
