package proxy

import "fmt"

// cause is why an exchange ended as it did, for metrics and traces. Beyond its own values it has one for each [Reason].
type cause int

const (
	// answered means that the backend's answer was handed on, whatever it says but for what follows.
	answered cause = iota
	// serverError means that it was a 5xx, or a gRPC status that blames the server.
	serverError
	// busy means that the backend had too much to do.
	busy
	// clientLeft means that nobody was left to answer.
	clientLeft
	// streamBroken means that the backend broke its answer off.
	streamBroken
	ownCauses
)

var causeNames = [ownCauses]string{"answered", "server_error", "busy", "client_left", "stream_broken"}

// because is the cause that a reason is.
func because(reason Reason) cause { return ownCauses + cause(reason) }

// causeValues lists every value, in order.
func causeValues() []cause {
	values := make([]cause, int(ownCauses)+len(reasons))
	for i := range values {
		values[i] = cause(i)
	}

	return values
}

// String returns the word used in metrics and traces.
func (c cause) String() string {
	switch {
	case c < 0 || int(c) >= int(ownCauses)+len(reasons):
		return fmt.Sprintf("cause(%d)", int(c))
	case c < ownCauses:
		return causeNames[c]
	default:
		return Reason(c - ownCauses).String()
	}
}

// failed says whether the user got less than an answer, so that the cause is an error's.
func (c cause) failed() bool { return c != answered && c != busy && c != serverError }
