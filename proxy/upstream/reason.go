package upstream

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Reason is why an exchange brought no answer.
type Reason int

const (
	// NotConnected means: no connection could be made. Nothing was sent. Err is what Dial or Dialed said.
	NotConnected Reason = iota
	// Unfit means: the request cannot be written as HTTP/1.1. Nothing was sent.
	Unfit
	// BodyBroken means: the request's body could not be read to its end. Err is what its reader said.
	BodyBroken
	// Broken means: the backend broke the connection, or it was cancelled, before the head of an answer was there.
	Broken
	// Malformed means: what the backend sent is no HTTP/1.1 answer, or one that can be understood in two ways.
	Malformed
)

var reasonNames = units.Names[Reason]{
	NotConnected: "not_connected",
	Unfit:        "unfit",
	BodyBroken:   "body_broken",
	Broken:       "broken",
	Malformed:    "malformed",
}

// ReasonValues lists every value, in order.
func ReasonValues() []Reason { return reasonNames.Values() }

// String returns the code used in logs.
func (r Reason) String() string { return reasonNames.Of(r) }

// MarshalText implements [encoding.TextMarshaler].
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Error is an exchange that brought no answer.
type Error struct {
	Reason Reason
	Err    error
}

func (e *Error) Error() string { return e.Reason.String() + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
