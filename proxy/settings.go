package proxy

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Settings is what a handler is made of.
type Settings struct {
	// Backend is where HTTP goes, and GRPC where gRPC goes; without one gRPC goes to Backend, over h2c.
	Backend, GRPC units.Address
	// Transport carries HTTP/1 requests.
	Transport Transport
	// DialContext connects to them. Nil is a net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Gate is required.
	Gate *Gate
	// Breaker may be nil: every request is let through then and none is judged.
	Breaker  *circuit.Breaker
	Limits   LimitsConfig
	Timeouts TimeoutsConfig
	// Hold says how callers tell their deadline, what it is when they do not, and whether what the backend refuses as busy goes back to the line; the rest of it is the gate's.
	Hold HoldConfig
	// ConnectTimeout limits one attempt to connect. 0 means no limit.
	ConnectTimeout time.Duration
	// IdleConnections is how many unused connections to the backend are kept, each for at most IdleTimeout.
	IdleConnections int
	IdleTimeout     time.Duration
	// ClientIdleTimeout is for how long a client's unused connection is kept. 0 means no limit.
	ClientIdleTimeout time.Duration
	// MaxConnectionAge is the age, give or take a tenth, from which on a client's connection ends with its next answer. 0 means no limit.
	MaxConnectionAge time.Duration
	// TLS is what clients are shown. Nil serves without TLS, over HTTP/1 and h2c.
	TLS *tls.Config
	// BackendTLS is how a backend at an https address is verified, and what it is shown. Nil verifies it against the system's roots.
	BackendTLS *tls.Config
	// Forwarded says what becomes of the headers that tell where a request came from.
	Forwarded Forwarded
	// Denied names the paths that are refused whatever the state. It is asked about a path in each of the ways in which a server may read it: as it is written, and
	// decoded, with dots and doubled slashes resolved, without parameters and so on, some or all of it. Nil denies none. A gRPC method is a path as well.
	Denied func(path string) bool
	// ReadyPaths names the paths by which the backend itself says that it is ready. They are refused while answer is false and passed on, never held, otherwise.
	ReadyPaths func(path string) (answer func() bool, ok bool)
	// LivePath names the paths that are passed on whatever the state and never held: the backend's own liveness and metrics.
	LivePath func(path string) bool
	// Lost is called when no connection to the backend could be made. When it returns the gate should hold: the request goes back to the line.
	Lost func(cause error)
	// Unavailable is called when the backend answered with a 503 that names no time to come back, before the answer is handed on; loading means that it says, in words, that
	// it is loading its model. Unavailable returns whether the backend has become cold: then the gate holds.
	Unavailable func(ctx context.Context, loading bool) (cold bool)
	// Suspect is called when an exchange broke: somebody should look at the backend now.
	Suspect func()
	// Observed is told of each user's request that was answered well and whose shape is known, from the goroutine of the request. Nil: nobody wants to know.
	Observed func(Observation)
	// State is that of the pod, for those who are refused. Nil leaves it out.
	State func() health.State
	// ServerTiming adds the times that a request was held and spent in the backend to HTTP answers.
	ServerTiming bool
	// Meter makes the instruments that record users' requests, Tracer and Propagator their traces. Nil records nothing, and touches no header.
	Meter      metric.Meter
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
	// Logger is for what a person debugs; requests leave no line above debug. Nil is silent.
	Logger *slog.Logger
}
