package warmup

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Order says which comes first: the backend's word that it is ready, or an inference.
type Order int

const (
	// OrderStatus waits for the backend's model-level readiness before the first inference.
	OrderStatus Order = iota
	// OrderInfer sends the first inference although the backend does not say yet that it is ready.
	OrderInfer
)

var orderNames = units.Names[Order]{
	OrderStatus: "status",
	OrderInfer:  "infer",
}

// OrderValues lists every value, in order.
func OrderValues() []Order { return orderNames.Values() }

// String returns the word used in the configuration.
func (o Order) String() string { return orderNames.Of(o) }

// MarshalText implements [encoding.TextMarshaler].
func (o Order) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (o *Order) UnmarshalText(text []byte) error { return orderNames.Parse("wait order", text, o) }
