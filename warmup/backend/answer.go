package backend

import (
	"net/http"
	"time"
)

// Answer is what came back, whole.
type Answer struct {
	Status int
	Header http.Header
	// Trailer is what came after the body; a gRPC call's status is there.
	Trailer http.Header
	Body    []byte
	// Truncated is true when the body was longer than the Client's limit: Body is its beginning.
	Truncated bool
	Timing    Timing
}

// Timing says how long parts of an exchange took, each counted from its beginning.
type Timing struct {
	// Connect is when the connection stood.
	Connect time.Duration
	// FirstByte is when the head of the answer began.
	FirstByte time.Duration
	// Total is when the last byte of the body was read.
	Total time.Duration
	// Events counts the events of a stream: tokens, or a few of them together. FirstEvent and LastEvent are when the first and the last one were whole.
	Events                int
	FirstEvent, LastEvent time.Duration
}

// PerEvent is the mean time between two events of a stream; 0 when there were fewer.
func (t Timing) PerEvent() time.Duration {
	if t.Events < 2 {
		return 0
	}

	return (t.LastEvent - t.FirstEvent) / time.Duration(t.Events-1)
}
