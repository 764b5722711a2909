package proxy

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// HeldPolicy is what a drain does with the requests that are held.
type HeldPolicy int

const (
	// FinishHeld keeps them until the backend is warm or the drain's limit is reached.
	FinishHeld HeldPolicy = iota
	// RefuseHeld refuses them at once, retryably, and so each one that would have to be held from then on.
	RefuseHeld
)

var heldPolicyNames = units.Names[HeldPolicy]{
	FinishHeld: "finish",
	RefuseHeld: "refuse",
}

// HeldPolicyValues lists every value, in order.
func HeldPolicyValues() []HeldPolicy { return heldPolicyNames.Values() }

// String returns the word used in the configuration.
func (p HeldPolicy) String() string { return heldPolicyNames.Of(p) }

// MarshalText implements [encoding.TextMarshaler].
func (p HeldPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *HeldPolicy) UnmarshalText(text []byte) error {
	return heldPolicyNames.Parse("drain.held", text, p)
}
