package warmup

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Trigger is what begins the warm-up of a backend that answers.
type Trigger int

const (
	// TriggerStartup begins at once.
	TriggerStartup Trigger = iota
	// TriggerFirstRequest begins with the first request of a user, which is held until the backend is warm.
	TriggerFirstRequest
	// TriggerCalm begins once the machine has room for it, and pauses while it has none.
	TriggerCalm
)

var triggerNames = units.Names[Trigger]{
	TriggerStartup:      "startup",
	TriggerFirstRequest: "first-request",
	TriggerCalm:         "calm",
}

// TriggerValues lists every value, in order.
func TriggerValues() []Trigger { return triggerNames.Values() }

// String returns the word used in the configuration.
func (t Trigger) String() string { return triggerNames.Of(t) }

// MarshalText implements [encoding.TextMarshaler].
func (t Trigger) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Trigger) UnmarshalText(text []byte) error {
	return triggerNames.Parse("warmup trigger", text, t)
}
