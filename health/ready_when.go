package health

import (
	"fmt"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// ReadyWhen is the moment from which /readyz answers 200.
type ReadyWhen int

const (
	// WhenWarm is once the backend is warm.
	WhenWarm ReadyWhen = iota
	// WhenListening is once Pilotlight listens; requests that come before the backend is warm are held.
	WhenListening
)

// ReadyWhenValues lists every value, in order.
func ReadyWhenValues() []ReadyWhen { return []ReadyWhen{WhenWarm, WhenListening} }

// String returns the word used in the configuration.
func (r ReadyWhen) String() string {
	switch r {
	case WhenWarm:
		return "warm"
	case WhenListening:
		return "listening"
	default:
		return fmt.Sprintf("ReadyWhen(%d)", int(r))
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (r ReadyWhen) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *ReadyWhen) UnmarshalText(text []byte) error {
	value, err := units.ParseName("ready_when", text, ReadyWhenValues())
	if err == nil {
		*r = value
	}

	return err
}
