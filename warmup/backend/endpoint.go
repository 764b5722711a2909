package backend

import (
	"slices"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Endpoint is the API by which a model is asked: a language model by one of several, tensors by HTTP or gRPC.
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
	// EndpointHTTP is the Open Inference Protocol over HTTP.
	EndpointHTTP
	// EndpointGRPC is the Open Inference Protocol over gRPC.
	EndpointGRPC
)

var endpointNames = units.Names[Endpoint]{
	EndpointNative:      "native",
	EndpointCompletions: "completions",
	EndpointChat:        "chat",
	EndpointEmbeddings:  "embeddings",
	EndpointHTTP:        "http",
	EndpointGRPC:        "grpc",
}

// EndpointValues lists every value, in order.
func EndpointValues() []Endpoint { return endpointNames.Values() }

// String returns the word used in the configuration.
func (e Endpoint) String() string { return endpointNames.Of(e) }

// MarshalText implements [encoding.TextMarshaler].
func (e Endpoint) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (e *Endpoint) UnmarshalText(text []byte) error { return endpointNames.Parse("endpoint", text, e) }

// EndpointsOf lists those that may be named for a server whose grid has those keys.
func EndpointsOf(takes []Axis) []Endpoint {
	if slices.Contains(takes, AxisDims) {
		return []Endpoint{EndpointHTTP, EndpointGRPC}
	}

	return []Endpoint{EndpointNative, EndpointCompletions, EndpointChat, EndpointEmbeddings}
}
