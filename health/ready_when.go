package health

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// ReadyWhen is the moment from which /readyz answers 200.
type ReadyWhen int

const (
	// WhenWarm is once the backend is warm.
	WhenWarm ReadyWhen = iota
	// WhenListening is once Pilotlight listens; requests that come before the backend is warm are held.
	WhenListening
)

var readyWhenNames = units.Names[ReadyWhen]{
	WhenWarm:      "warm",
	WhenListening: "listening",
}

// ReadyWhenValues lists every value, in order.
func ReadyWhenValues() []ReadyWhen { return readyWhenNames.Values() }

// String returns the word used in the configuration.
func (r ReadyWhen) String() string { return readyWhenNames.Of(r) }

// MarshalText implements [encoding.TextMarshaler].
func (r ReadyWhen) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *ReadyWhen) UnmarshalText(text []byte) error {
	return readyWhenNames.Parse("ready_when", text, r)
}
