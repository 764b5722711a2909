package proxy

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Outcome is how a wait at the gate ended.
type Outcome int

const (
	// Proceed means: the request may go to the backend now.
	Proceed Outcome = iota
	// Full means: too many requests are held, or no memory is left for this one's body.
	Full
	// TooLarge means: the body is known to be larger than a held body may be.
	TooLarge
	// TimedOut means: the request was held for as long as a request may be.
	TimedOut
	// Crowded means: the request was held for as long as a request may be, while the backend was at work on as many others as may be let through at once.
	Crowded
	// Expired means: the time for which the caller waits was over.
	Expired
	// Hopeless means: by what is known the request would be held in vain, so it is not held at all.
	Hopeless
	// Gone means: the client left.
	Gone
	// Drained means: Pilotlight is draining and refuses what it would have to hold.
	Drained
	// Refused means: the gate refuses everybody: the breaker is open or the backend was stopped.
	Refused
)

var outcomeNames = units.Names[Outcome]{
	Proceed:  "proceed",
	Full:     "full",
	TooLarge: "too_large",
	TimedOut: "timed_out",
	Crowded:  "crowded",
	Expired:  "expired",
	Hopeless: "hopeless",
	Gone:     "gone",
	Drained:  "draining",
	Refused:  "refused",
}

// OutcomeValues lists every value, in order.
func OutcomeValues() []Outcome { return outcomeNames.Values() }

// String returns the word used in status pages, metrics and logs.
func (o Outcome) String() string { return outcomeNames.Of(o) }

// MarshalText implements [encoding.TextMarshaler].
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }
