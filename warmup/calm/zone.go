package calm

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Zone is what may be done under the present pressure, the most first.
type Zone int

const (
	// Go means that there is room.
	Go Zone = iota
	// Delay means that what has not begun should wait.
	Delay
	// Suspend means that what has begun should pause.
	Suspend
)

var zoneNames = units.Names[Zone]{Go: "go", Delay: "delay", Suspend: "suspend"}

// ZoneValues lists every value, in order.
func ZoneValues() []Zone { return zoneNames.Values() }

// String returns a word for logs.
func (z Zone) String() string { return zoneNames.Of(z) }

// MarshalText implements [encoding.TextMarshaler].
func (z Zone) MarshalText() ([]byte, error) { return []byte(z.String()), nil }
