package warmup

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Reason is why an outcome is not plainly warm, in the words of the condition codes.
type Reason int

const (
	// ReasonNotConverged means that a shape's latency did not settle within its bound.
	ReasonNotConverged Reason = iota
	// ReasonGPUTimeSpent means that the time allowed for synthetic requests is spent, and that something is left unwarmed.
	ReasonGPUTimeSpent
	// ReasonOptionalFailed means that an optional step failed.
	ReasonOptionalFailed
	// ReasonWarmFailed means that a step failed.
	ReasonWarmFailed
	// ReasonWarmedNothing means that no request was sent for the model.
	ReasonWarmedNothing
	// ReasonWorkersUnknown means that the server does not say how many processes stand behind its port, so that some may be cold.
	ReasonWorkersUnknown
	// ReasonCredentialsRefused means that the backend answered 401 or 403.
	ReasonCredentialsRefused
)

var reasonNames = units.Names[Reason]{
	ReasonNotConverged:       "not_converged",
	ReasonGPUTimeSpent:       "gpu_time_spent",
	ReasonOptionalFailed:     "optional_failed",
	ReasonWarmFailed:         "warm_failed",
	ReasonWarmedNothing:      "warmed_nothing",
	ReasonWorkersUnknown:     "workers_unknown",
	ReasonCredentialsRefused: "credentials_refused",
}

// ReasonValues lists every value, in order.
func ReasonValues() []Reason { return reasonNames.Values() }

// String returns the condition code.
func (r Reason) String() string { return reasonNames.Of(r) }

// MarshalText implements [encoding.TextMarshaler].
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
