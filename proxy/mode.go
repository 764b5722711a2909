package proxy

import "fmt"

// Mode is the position of the gate.
type Mode int

const (
	// Holding keeps every request inside Pilotlight.
	Holding Mode = iota
	// Refusing answers every request at once with a retryable refusal.
	Refusing
	// Ramping lets a limited number of requests through at once, first in, first out.
	Ramping
	// Passing lets every request through. It costs one atomic load.
	Passing
)

// ModeValues lists every value, in order.
func ModeValues() []Mode { return []Mode{Holding, Refusing, Ramping, Passing} }

// String returns the word used in status pages and logs.
func (m Mode) String() string {
	switch m {
	case Holding:
		return "holding"
	case Refusing:
		return "refusing"
	case Ramping:
		return "ramping"
	case Passing:
		return "passing"
	default:
		return fmt.Sprintf("Mode(%d)", int(m))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }
