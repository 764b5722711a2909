package proxy

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// LimitsConfig bounds what one client may ask of the proxy.
type LimitsConfig struct {
	// HeaderBytes is the most bytes that the head of a request may have, counted as HTTP/1 writes it. A larger one is refused with 431.
	HeaderBytes units.Size `yaml:"header_bytes"`
	// Headers is the most header lines that a request may have. One with more is refused with 431.
	Headers int `yaml:"headers"`
	// Body is the largest body of a request, and for gRPC, compressed or not as it is sent, the largest message. A larger one is refused with 413, for gRPC with
	// RESOURCE_EXHAUSTED. 0 means no limit: bodies stream through. While a request is held, the hold block has narrower limits.
	Body units.Size `yaml:"body"`
	// Connections is the most connections of clients, at all addresses of the data port together. Further ones are closed at once, so that whoever balances
	// load tries another pod. Where the process may not have twice as many file descriptors, fewer fit. 0 means no limit.
	Connections int `yaml:"connections"`
	// StreamsPerConnection is the most requests in flight on one HTTP/2 connection. Envoy opens few connections, so this also bounds how many of its requests can be held.
	StreamsPerConnection int `yaml:"streams_per_connection"`
	// HeaderTimeout is the longest that the head of a request may take to arrive, and on a new connection the TLS handshake.
	HeaderTimeout units.Duration `yaml:"header_timeout"`
}

// TimeoutsConfig gives every wait on the data path its own clock. 0 means no limit.
type TimeoutsConfig struct {
	// UploadIdle is the longest that the backend may take no byte of the request, before it answers. One that takes less than 32KiB in that time may count as taking none.
	UploadIdle units.Duration `yaml:"upload_idle"`
	// BodyIdle is the longest that a client may send no byte of its body, before an answer has begun. It does not hold for a gRPC call that is open, which may be silent for as long as TunnelIdle.
	BodyIdle units.Duration `yaml:"body_idle"`
	// FirstByte runs from the last byte of the request sent to the first body byte of the answer.
	FirstByte units.Duration `yaml:"first_byte"`
	// StreamIdle is the longest silence of the backend after the first body byte.
	StreamIdle units.Duration `yaml:"stream_idle"`
	// TunnelIdle is the longest that no byte goes either way through an upgraded connection, or through a gRPC call whose caller may go on sending.
	TunnelIdle units.Duration `yaml:"tunnel_idle"`
	// WriteStall is the longest that a client may read nothing of its answer. Who reads less than 32KiB in that time may count as reading nothing.
	WriteStall units.Duration `yaml:"write_stall"`
	// Total is the longest that a whole exchange may take.
	Total units.Duration `yaml:"total"`
}

// HoldConfig bounds the requests that wait inside Pilotlight before anything was sent to the backend.
type HoldConfig struct {
	// MaxWait is how long one request may be held.
	MaxWait MaxWaitConfig `yaml:"max_wait"`
	// MaxRequests is how many requests may be held at once, for whatever reason.
	MaxRequests int `yaml:"max_requests"`
	// MaxBody is the largest known request body that is held; larger ones are refused while the gate holds.
	MaxBody units.Size `yaml:"max_body"`
	// MaxStreamBody is how much of a body of unknown length is read ahead while held; then flow control stops the client.
	MaxStreamBody units.Size `yaml:"max_stream_body"`
	// Memory is the budget for all held bodies together. "auto" is min(256MiB, a quarter of what the memory cgroup leaves).
	Memory units.Auto[units.Size] `yaml:"memory"`
	// FailFast refuses a request at once, with the time to come back, when by what has been measured so far, of the warm-up or of the pace at which those who wait are let through,
	// its turn cannot come before the caller's deadline or the end of max_wait.
	FailFast bool `yaml:"fail_fast"`
	// AssumeDeadline is for how long callers are taken to wait who do not say so themselves, held time included; it is not passed on to the backend. 0 means as long as max_wait.
	AssumeDeadline units.Duration `yaml:"assume_deadline"`
	// DeadlineHeader names an HTTP header in which callers say for how long they wait, as a duration with its unit such as 2.5s. What is left of it is passed on
	// in that form; a value of another form says nothing and passes unchanged. grpc-timeout and x-envoy-expected-rq-timeout-ms are always read.
	DeadlineHeader string `yaml:"deadline_header"`
	// RequeueRefused sends a request that was held, and that the backend refuses because it has too much to do, once more when its turn comes again, before all others;
	// and any request that it answers with a 503 because it is loading its model. false hands the refusal on.
	RequeueRefused bool `yaml:"requeue_refused"`
}

// MaxWaitConfig says how long a request may be held.
type MaxWaitConfig struct {
	// Start rules before the first ready.
	Start units.Duration `yaml:"start"`
	// Restart rules afterwards.
	Restart units.Duration `yaml:"restart"`
}

// ConcurrencyConfig shapes how many requests are let through at once.
type ConcurrencyConfig struct {
	// Limit is the most requests in flight at the backend; those beyond wait in line, within the bounds of hold. 0 means no limit. A number is kept to whatever happens: a request counts
	// until its answer has ended, a tunnel or an open stream for as long as it is open. For up to 10s after the backend refused one as busy it may be fewer. "auto" finds the number by
	// itself: one more at a time while answers begin in time, half as many when they begin late or are refused, never below one. It is not for LLM servers: those in front
	// that pick a pod read the server's own queue, which a limit keeps empty.
	Limit units.Auto[int] `yaml:"limit"`
	// Ramp is how held requests are released once the backend is warm.
	Ramp RampConfig `yaml:"ramp"`
}

// RampConfig shapes the release of held requests.
type RampConfig struct {
	// Start is the number of requests let through at first; each good answer adds one more.
	Start int `yaml:"start"`
}

// DefaultLimits returns the limits used when the user sets none.
func DefaultLimits() LimitsConfig {
	return LimitsConfig{
		HeaderBytes:          64 << 10,
		Headers:              200,
		Connections:          20000,
		StreamsPerConnection: 1000,
		HeaderTimeout:        units.Duration(10 * time.Second),
	}
}

// DefaultTimeouts returns the timeouts used when the user sets none.
func DefaultTimeouts() TimeoutsConfig {
	return TimeoutsConfig{
		UploadIdle: units.Duration(2 * time.Minute),
		BodyIdle:   units.Duration(5 * time.Minute),
		FirstByte:  units.Duration(5 * time.Minute),
		StreamIdle: units.Duration(2 * time.Minute),
		TunnelIdle: units.Duration(time.Hour),
		WriteStall: units.Duration(30 * time.Second),
	}
}

// DefaultHold returns the bounds used when the user sets none.
func DefaultHold() HoldConfig {
	return HoldConfig{
		MaxWait:       MaxWaitConfig{Start: units.Duration(30 * time.Second), Restart: units.Duration(10 * time.Second)},
		MaxRequests:   10000,
		MaxBody:       16 << 20,
		MaxStreamBody: 64 << 10,
		FailFast:      true,
		// A request that waited for its turn should not lose it to the backend's own queue.
		RequeueRefused: true,
	}
}

// DefaultConcurrency returns the concurrency settings used when the user sets none.
func DefaultConcurrency() ConcurrencyConfig {
	return ConcurrencyConfig{Limit: units.Of(0), Ramp: RampConfig{Start: 4}}
}
