package circuit

import (
	"fmt"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

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

// StateValues lists every state, in order.
func StateValues() []State { return []State{Closed, Open, HalfOpen} }

// String returns the word used in answers, logs and metrics.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	default:
		return fmt.Sprintf("State(%d)", int(s))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *State) UnmarshalText(text []byte) error {
	value, err := units.ParseName("circuit state", text, StateValues())
	if err == nil {
		*s = value
	}

	return err
}
