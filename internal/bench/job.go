package main

import "time"

// kind is a way to make load.
type kind string

const (
	// closedLoop sends the next request once the answer to the one before has come.
	closedLoop kind = "closed"
	// openLoop sends at a fixed rate, whatever comes back; latency counts from when a request was due.
	openLoop kind = "open"
	// tokens opens streams of server-sent events and measures how long each token was on its way.
	tokens kind = "tokens"
	// grpcUnary calls, and calls again once the answer has come.
	grpcUnary kind = "grpc-unary"
	// grpcStream keeps a few messages under way on bidirectional streams that bring them back, and counts those.
	grpcStream kind = "grpc-stream"
)

// job is what the load generator is told, as JSON on its standard input.
type job struct {
	Kind    kind   `json:"kind"`
	Address string `json:"address"`
	// Size is that of the request's body, and of the answer's, in bytes.
	Size int `json:"size"`
	// Concurrency is how many requests, or streams, are under way at once.
	Concurrency int `json:"concurrency"`
	// Rate is requests per second of an open loop, or tokens per second of each stream.
	Rate float64 `json:"rate"`
	// Warm is how long there is load before anything is measured.
	Warm time.Duration `json:"warm"`
	// For is how long is measured.
	For time.Duration `json:"for"`
	// Processes are those whose processor time is read meanwhile.
	Processes []int `json:"processes"`
}

// result is what the load generator says, as JSON on its standard output.
type result struct {
	// Done is how many requests were answered, or tokens or messages received, in the measured time.
	Done int `json:"done"`
	// Failed is how many were not, at any time; Failure is the first of them.
	Failed  int    `json:"failed"`
	Failure string `json:"failure,omitempty"`
	// Seconds is how long was measured.
	Seconds float64 `json:"seconds"`
	// P50 and P99 are of the latencies; no figure without a sample.
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
	// Processor is what the named processes used meanwhile.
	Processor time.Duration `json:"processor"`
}

// perSecond is how many were done in a second.
func (r result) perSecond() float64 { return float64(r.Done) / r.Seconds }

// perThousand is the processor time, in milliseconds, that 1,000 of them took.
func (r result) perThousand() float64 {
	return r.Processor.Seconds() * 1000 / float64(r.Done) * 1000
}
