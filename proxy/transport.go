package proxy

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Transport is what carries HTTP/1 requests to the backend. gRPC is carried by the standard library's HTTP/2 either way.
type Transport int

const (
	// Direct writes the request to a connection and copies the answer from it, in the goroutine of the request: [upstream.Transport].
	Direct Transport = iota
	// Standard is the standard library's [http.Transport] below its reverse proxy.
	Standard
)

var transportNames = units.Names[Transport]{
	Direct:   "direct",
	Standard: "standard",
}

// TransportValues lists every value, in order.
func TransportValues() []Transport { return transportNames.Values() }

// String returns the word used in the configuration.
func (t Transport) String() string { return transportNames.Of(t) }

// MarshalText implements [encoding.TextMarshaler].
func (t Transport) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Transport) UnmarshalText(text []byte) error {
	return transportNames.Parse("backend.transport", text, t)
}
