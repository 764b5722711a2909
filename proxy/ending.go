package proxy

import (
	"net/http"
	"strconv"
	"time"
)

// ending is what metrics and traces are told of a user's request when it is over. It holds no content, and nothing that a caller can make up but what is bounded on the way out.
type ending struct {
	method       string
	major, minor int // of the client's HTTP
	grpc         bool
	// status is HTTP's as the client got it, 0 when it got none; grpcStatus what the header or trailer grpc-status said, empty when there was none.
	status     int
	grpcStatus string
	cause      cause
	took       time.Duration
	// firstByte is the time from the arrival to the first byte of the answer's body; 0: none came.
	firstByte time.Duration
	// held is for how long the request was held, and outcome how that ended. 0 and Proceed: it was not.
	held    time.Duration
	outcome Outcome
	// received and sent are the bytes of the two bodies.
	received, sent int64
}

// failure is the cause as far as it is one of a failure: what the status tells need not be told twice.
func (e *ending) failure() cause {
	if e.cause.failed() {
		return e.cause
	}

	return answered
}

// methods are those that the registry of HTTP's methods has and a model server may see; the last one stands for all others.
var methods = [...]string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodHead, http.MethodOptions, http.MethodPatch, http.MethodTrace, http.MethodConnect,
	"QUERY", "_OTHER",
}

func methodIndex(method string) int {
	for i, known := range methods {
		if known == method {
			return i
		}
	}

	return len(methods) - 1
}

// versions are the ways in which a client may speak to us.
var versions = [...]string{"1.0", "1.1", "2"}

func versionIndex(major, minor int) int {
	switch {
	case major == 2:
		return 2
	case minor == 0:
		return 0
	default:
		return 1
	}
}

// errorType is the attribute error.type of a request whose answer had this HTTP status, or this gRPC code; empty where there was no error.
func errorType(grpc bool, status, code int, why cause) string {
	switch {
	case why.failed():
		return why.String()
	case grpc && code < noCode && blamesServer(code):
		return grpcCodes[code]
	case !grpc && status >= http.StatusInternalServerError:
		return strconv.Itoa(status)
	default:
		return ""
	}
}
