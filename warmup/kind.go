package warmup

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Kind is what a step does.
type Kind int

const (
	// KindWait waits for the backend.
	KindWait Kind = iota
	// KindInfer sends synthetic requests.
	KindInfer
	// KindCall makes one HTTP call.
	KindCall
	// KindReplay sends requests from files.
	KindReplay
	// KindPrefetch reads files into the page cache.
	KindPrefetch
)

var kindNames = units.Names[Kind]{
	KindWait:     "wait",
	KindInfer:    "infer",
	KindCall:     "call",
	KindReplay:   "replay",
	KindPrefetch: "prefetch",
}

// KindValues lists every value, in order.
func KindValues() []Kind { return kindNames.Values() }

// String returns the step's key in the configuration.
func (k Kind) String() string { return kindNames.Of(k) }

// MarshalText implements [encoding.TextMarshaler].
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
