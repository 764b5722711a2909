package telemetry

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Protocol is how a collector is spoken to.
type Protocol int

const (
	// ProtocolGRPC is OTLP over gRPC, most often at port 4317.
	ProtocolGRPC Protocol = iota
	// ProtocolHTTP is OTLP as protobuf over HTTP, most often at port 4318.
	ProtocolHTTP
)

var protocolNames = units.Names[Protocol]{
	ProtocolGRPC: "grpc",
	ProtocolHTTP: "http",
}

// ProtocolValues lists every value, in order.
func ProtocolValues() []Protocol { return protocolNames.Values() }

// String returns the word used in the configuration.
func (p Protocol) String() string { return protocolNames.Of(p) }

// MarshalText implements [encoding.TextMarshaler].
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Protocol) UnmarshalText(text []byte) error { return protocolNames.Parse("protocol", text, p) }
