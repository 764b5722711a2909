package health

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// ReadyAfter is what must be warm for the pod to be ready.
type ReadyAfter int

const (
	// AfterRequired is once the required shapes are warm; the others are warmed in the background.
	AfterRequired ReadyAfter = iota
	// AfterAll is once every shape is warm.
	AfterAll
)

var readyAfterNames = units.Names[ReadyAfter]{
	AfterRequired: "required",
	AfterAll:      "all",
}

// ReadyAfterValues lists every value, in order.
func ReadyAfterValues() []ReadyAfter { return readyAfterNames.Values() }

// String returns the word used in the configuration.
func (r ReadyAfter) String() string { return readyAfterNames.Of(r) }

// MarshalText implements [encoding.TextMarshaler].
func (r ReadyAfter) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *ReadyAfter) UnmarshalText(text []byte) error {
	return readyAfterNames.Parse("ready_after", text, r)
}
