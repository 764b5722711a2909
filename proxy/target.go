package proxy

import (
	"net/http"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Target is which of the backend's addresses the requests of a listener are for.
type Target int

const (
	// ToHTTP sends gRPC calls to where the backend speaks gRPC and all else to where it speaks HTTP.
	ToHTTP Target = iota
	// ToGRPC sends everything to where the backend speaks gRPC, over HTTP/2.
	ToGRPC
)

var targetNames = units.Names[Target]{
	ToHTTP: "http",
	ToGRPC: "grpc",
}

// TargetValues lists every value, in order.
func TargetValues() []Target { return targetNames.Values() }

// String returns the word used in the configuration.
func (t Target) String() string { return targetNames.Of(t) }

// MarshalText implements [encoding.TextMarshaler].
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *Target) UnmarshalText(text []byte) error { return targetNames.Parse("target", text, t) }

// handler answers the requests of a listener for to.
func (h *Handler) handler(to Target) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serve(w, r, to) //nolint:contextcheck // the exchange has its request's context
	})
}

// overH2 says whether the request goes to where the backend speaks gRPC.
func (x *exchange) overH2() bool { return x.grpc || x.to == ToGRPC }
