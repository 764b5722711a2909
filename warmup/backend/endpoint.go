package backend

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Endpoint is the API by which a language model is asked.
type Endpoint int

const (
	// EndpointNative is the server type's own API, for example /generate.
	EndpointNative Endpoint = iota
	// EndpointCompletions is /v1/completions.
	EndpointCompletions
	// EndpointChat is /v1/chat/completions.
	EndpointChat
	// EndpointEmbeddings is /v1/embeddings.
	EndpointEmbeddings
)

var endpointNames = units.Names[Endpoint]{
	EndpointNative:      "native",
	EndpointCompletions: "completions",
	EndpointChat:        "chat",
	EndpointEmbeddings:  "embeddings",
}

// EndpointValues lists every value, in order.
func EndpointValues() []Endpoint { return endpointNames.Values() }

// String returns the word used in the configuration.
func (e Endpoint) String() string { return endpointNames.Of(e) }

// MarshalText implements [encoding.TextMarshaler].
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (e *Endpoint) UnmarshalText(text []byte) error { return endpointNames.Parse("endpoint", text, e) }
