package telemetry

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Kind is what the numbers of a metric mean.
type Kind int

const (
	// Gauge goes up and down.
	Gauge Kind = iota
	// Counter only goes up.
	Counter
	// Histogram counts durations by their length.
	Histogram
)

var kindNames = units.Names[Kind]{
	Gauge:     "gauge",
	Counter:   "counter",
	Histogram: "histogram",
}

// KindValues lists every value, in order.
func KindValues() []Kind { return kindNames.Values() }

// String returns the word that Prometheus uses.
func (k Kind) String() string { return kindNames.Of(k) }

// MarshalText implements [encoding.TextMarshaler].
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
