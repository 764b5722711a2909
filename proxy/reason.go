package proxy

import (
	"fmt"
	"net/http"
)

// Reason is why Pilotlight itself answered a request instead of the backend.
type Reason int

const (
	// HoldFull means: too many requests, or too many bytes, are held.
	HoldFull Reason = iota
	// BodyTooLarge means: the body is larger than a body may be that has to be held.
	BodyTooLarge
	// HoldTimeout means: the backend was not ready within the time for which a request is held.
	HoldTimeout
	// CrowdTimeout means: the backend was at work on as many other requests as may be let through at once, for the whole time for which a request is held.
	CrowdTimeout
	// DeadlineExceeded means: the time for which the caller waits was over while the request was held.
	DeadlineExceeded
	// NotInTime means: by what has been measured the request's turn will not come before the caller's deadline, or the end of the longest hold.
	NotInTime
	// PodDraining means: the pod is going away.
	PodDraining
	// BreakerOpen means: the backend is failing.
	BreakerOpen
	// Stopping means: Pilotlight is about to end.
	Stopping
	// NotReady is the truthful answer to a question whether the backend is ready.
	NotReady
	// Unreachable means: no connection to the backend could be made.
	Unreachable
	// ConnectTimeout means: the backend did not accept a connection in time.
	ConnectTimeout
	// LocalExhausted means: Pilotlight has no file descriptor, port or memory left for a connection.
	LocalExhausted
	// BackendBroke means: the backend took the request and broke the connection before an answer.
	BackendBroke
	// UploadIdleTimeout means: the backend took no more of the request.
	UploadIdleTimeout
	// BodyIdleTimeout means: the client sent no more of its body.
	BodyIdleTimeout
	// FirstByteTimeout means: the backend took the request and did not begin an answer in time.
	FirstByteTimeout
	// StreamIdleTimeout means: the backend began an answer and fell silent.
	StreamIdleTimeout
	// TunnelIdleTimeout means: no byte went either way through a tunnel or an open call.
	TunnelIdleTimeout
	// WriteStallTimeout means: the client read nothing of its answer.
	WriteStallTimeout
	// TotalTimeout means: the exchange took longer than an exchange may.
	TotalTimeout
	// Loop means: the request had passed this Pilotlight before.
	Loop
	// NoGRPC means: the backend does not speak gRPC where it was asked.
	NoGRPC
	// NoTunnels means: CONNECT is not for a server of models.
	NoTunnels
	// BadRequest means: the request cannot be forwarded as it is.
	BadRequest
	// PathDenied means: the path changes what the model server serves, which is not for callers of the data port.
	PathDenied
	// TooManyHeaders means: the request has more header lines than one may have.
	TooManyHeaders
	// HeadTooLarge means: the head of the request is larger than one may be.
	HeadTooLarge
	// BodyLimit means: the body, or a message of a gRPC call, is larger than one may ever be.
	BodyLimit
)

type reasonFacts struct {
	name   string
	status int
	grpc   int
	retry  bool // the same request may succeed later, and was not delivered
	title  string
}

var reasons = [...]reasonFacts{
	HoldFull:          {"hold_full", http.StatusServiceUnavailable, grpcUnavailable, true, "too many requests are waiting for the model server"},
	BodyTooLarge:      {"body_too_large", http.StatusRequestEntityTooLarge, grpcResourceExhausted, false, "the body exceeds hold.max_body, the limit for requests that have to wait for the model server"},
	HoldTimeout:       {"hold_timeout", http.StatusServiceUnavailable, grpcUnavailable, true, "the model server was not ready in time"},
	CrowdTimeout:      {"crowd_timeout", http.StatusServiceUnavailable, grpcUnavailable, true, "the model server was busy with other requests for as long as a request may wait"},
	DeadlineExceeded:  {"deadline_exceeded", http.StatusGatewayTimeout, grpcDeadlineExceeded, true, "the caller's deadline was over while the request waited for the model server"},
	NotInTime:         {"not_in_time", http.StatusServiceUnavailable, grpcUnavailable, true, "by what was measured the model server will not be free for this request in time"},
	PodDraining:       {"draining", http.StatusServiceUnavailable, grpcUnavailable, true, "this pod is going away"},
	BreakerOpen:       {"breaker_open", http.StatusServiceUnavailable, grpcUnavailable, true, "the model server is failing"},
	Stopping:          {"stopping", http.StatusServiceUnavailable, grpcUnavailable, true, "this pod is stopping"},
	NotReady:          {"not_ready", http.StatusServiceUnavailable, grpcUnavailable, true, "the model server is not ready"},
	Unreachable:       {"unreachable", http.StatusServiceUnavailable, grpcUnavailable, true, "the model server cannot be reached"},
	ConnectTimeout:    {"connect_timeout", http.StatusGatewayTimeout, grpcUnavailable, true, "the model server did not accept a connection in time"},
	LocalExhausted:    {"local_exhausted", http.StatusServiceUnavailable, grpcUnavailable, true, "the proxy has no free connection to the model server"},
	BackendBroke:      {"backend_broke", http.StatusBadGateway, grpcUnavailable, false, "the model server broke the connection"},
	UploadIdleTimeout: {"upload_idle_timeout", http.StatusGatewayTimeout, grpcDeadlineExceeded, false, "the model server took no byte of the request for timeouts.upload_idle"},
	BodyIdleTimeout:   {"body_idle_timeout", http.StatusRequestTimeout, grpcDeadlineExceeded, false, "the client sent no byte of its body for timeouts.body_idle"},
	FirstByteTimeout:  {"first_byte_timeout", http.StatusGatewayTimeout, grpcDeadlineExceeded, false, "the model server did not answer within timeouts.first_byte"},
	StreamIdleTimeout: {"stream_idle_timeout", http.StatusGatewayTimeout, grpcDeadlineExceeded, false, "the model server fell silent for timeouts.stream_idle"},
	TunnelIdleTimeout: {"tunnel_idle_timeout", http.StatusGatewayTimeout, grpcDeadlineExceeded, false, "no byte went either way for timeouts.tunnel_idle"},
	WriteStallTimeout: {"write_stall_timeout", http.StatusRequestTimeout, grpcDeadlineExceeded, false, "the client read nothing for timeouts.write_stall"},
	TotalTimeout:      {"total_timeout", http.StatusGatewayTimeout, grpcDeadlineExceeded, false, "the exchange took longer than timeouts.total"},
	Loop:              {"loop", http.StatusLoopDetected, grpcInternal, false, "the request came back to the proxy that had forwarded it"},
	NoGRPC:            {"no_grpc", http.StatusNotImplemented, grpcUnimplemented, false, "the model server speaks no HTTP/2 at the address for gRPC, which backend.grpc sets"},
	NoTunnels:         {"no_tunnels", http.StatusMethodNotAllowed, grpcInternal, false, "CONNECT is not supported"},
	BadRequest:        {"bad_request", http.StatusBadRequest, grpcInvalidArgument, false, "the request cannot be forwarded"},
	PathDenied:        {"path_denied", http.StatusForbidden, grpcPermissionDenied, false, "this path is denied on the data port by listen.deny"},
	TooManyHeaders:    {"too_many_headers", http.StatusRequestHeaderFieldsTooLarge, grpcResourceExhausted, false, "the request has too many headers"},
	HeadTooLarge:      {"head_too_large", http.StatusRequestHeaderFieldsTooLarge, grpcResourceExhausted, false, "the head of the request is too large"},
	BodyLimit:         {"body_limit", http.StatusRequestEntityTooLarge, grpcResourceExhausted, false, "the body, or a message of the call, is too large"},
}

// ReasonValues lists every value, in order.
func ReasonValues() []Reason {
	values := make([]Reason, len(reasons))
	for i := range values {
		values[i] = Reason(i)
	}

	return values
}

// String returns the code used in answers, metrics and logs.
func (r Reason) String() string {
	if r < 0 || int(r) >= len(reasons) {
		return fmt.Sprintf("Reason(%d)", int(r))
	}

	return reasons[r].name
}

// MarshalText implements [encoding.TextMarshaler].
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// blamesBackend says, of a reason that one of our clocks gave, whether it was the backend that let the time pass.
func (r Reason) blamesBackend() bool {
	return r != TunnelIdleTimeout && r != WriteStallTimeout && r != BodyIdleTimeout
}
