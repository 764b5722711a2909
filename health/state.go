package health

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// State is what the pod, the backend as a whole or one model is in. What each state means for readiness stands in readiness.go, what may follow it in table.go.
type State int

const (
	// Starting is while we listen and the backend does not answer yet.
	Starting State = iota
	// Idle is while the backend is up and cold on purpose: the first request starts the warm-up.
	Idle
	// Warming is while required shapes are warmed; only synthetic requests pass.
	Warming
	// Ready is warm, and fresh evidence says so.
	Ready
	// Degraded serves, with a condition that says what is not as it should be.
	Degraded
	// Unhealthy is confirmed: the breaker is open, the backend is stalled, or a fatal pattern was seen.
	Unhealthy
	// Cold is while the backend is lost, or came back without its warmth: restarted, reloaded, unloaded or slept.
	Cold
	// Draining is from the moment the pod was told to go; nothing but Stopped follows.
	Draining
	// Stopped is the end.
	Stopped
)

var stateNames = units.Names[State]{
	Starting:  "starting",
	Idle:      "idle",
	Warming:   "warming",
	Ready:     "ready",
	Degraded:  "degraded",
	Unhealthy: "unhealthy",
	Cold:      "cold",
	Draining:  "draining",
	Stopped:   "stopped",
}

// StateValues lists every value, in order.
func StateValues() []State { return stateNames.Values() }

// Serves tells whether requests reach the backend in this state.
func (s State) Serves() bool { return s == Ready || s == Degraded }

// String returns the word used in endpoints, metrics and logs.
func (s State) String() string { return stateNames.Of(s) }

// MarshalText implements [encoding.TextMarshaler].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *State) UnmarshalText(text []byte) error { return stateNames.Parse("state", text, s) }

// leaving tells whether the pod has been told to go.
func (s State) leaving() bool { return s == Draining || s == Stopped }
