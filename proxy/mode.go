package proxy

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Mode is the position of the gate.
type Mode int

const (
	// Holding keeps every request inside Pilotlight.
	Holding Mode = iota
	// Refusing answers every request at once with a retryable refusal.
	Refusing
	// Ramping lets a limited number of requests through at once, first in, first out.
	Ramping
	// Passing lets every request through, or as many at once as a concurrency limit allows.
	Passing
)

var modeNames = units.Names[Mode]{
	Holding:  "holding",
	Refusing: "refusing",
	Ramping:  "ramping",
	Passing:  "passing",
}

// ModeValues lists every value, in order.
func ModeValues() []Mode { return modeNames.Values() }

// String returns the word used in status pages and logs.
func (m Mode) String() string { return modeNames.Of(m) }

// MarshalText implements [encoding.TextMarshaler].
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }
