package onnx

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
)

// fault is why a request got no answer. It renders as HTTP and as gRPC.
type fault struct {
	kind faultKind
	text string
}

func (f *fault) Error() string { return f.text }

// faultKind says whose fault it is, in the two vocabularies that clients speak.
type faultKind int

const (
	// invalid: the request could never be answered.
	invalid faultKind = iota
	// unknown: there is no such model or version.
	unknown
	// unready: the model is not loaded yet.
	unready
	// busy: too many requests wait.
	busy
	// gone: the caller left, or its time was up.
	gone
	// internal: the model, ONNX Runtime or the worker failed.
	internal
)

func faultKindValues() []faultKind {
	return []faultKind{invalid, unknown, unready, busy, gone, internal}
}

// String returns the kind's name.
func (k faultKind) String() string {
	switch k {
	case invalid:
		return "invalid"
	case unknown:
		return "unknown"
	case unready:
		return "unready"
	case busy:
		return "busy"
	case gone:
		return "gone"
	case internal:
		return "internal"
	default:
		return "unknown fault"
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (k faultKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// status is the HTTP status. 503 is what "not ready" and "busy" are to every load balancer, though some servers say 400.
func (k faultKind) status() int {
	switch k {
	case invalid:
		return http.StatusBadRequest
	case unknown:
		return http.StatusNotFound
	case unready, busy:
		return http.StatusServiceUnavailable
	case gone:
		return 499 // nobody is left to read it; logs of proxies know the number
	case internal:
		return http.StatusInternalServerError
	default:
		return http.StatusInternalServerError
	}
}

// code is the gRPC status.
func (k faultKind) code() codes.Code {
	switch k {
	case invalid:
		return codes.InvalidArgument
	case unknown:
		return codes.NotFound
	case unready:
		return codes.Unavailable
	case busy:
		return codes.ResourceExhausted
	case gone:
		return codes.Canceled
	case internal:
		return codes.Internal
	default:
		return codes.Internal
	}
}

func faultf(kind faultKind, format string, arguments ...any) *fault {
	return &fault{kind: kind, text: fmt.Sprintf(format, arguments...)}
}

// asFault makes a fault of any error: an end of the caller's context is gone, anything unforeseen is internal.
func asFault(err error) *fault {
	var known *fault
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &fault{kind: gone, text: err.Error()}
	default:
		return &fault{kind: internal, text: err.Error()}
	}
}
