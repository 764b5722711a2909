package proxy

import (
	"fmt"
	"net/http"
)

const (
	// fieldOverhead is what HTTP/2 adds to each header when it counts how large a head is.
	fieldOverhead = 32
	// mostCounted bounds the headers for which room is made in HTTP/2's count.
	mostCounted = 1 << 16
)

// oversized says by which limit a request is refused before any of its body is read.
func (h *Handler) oversized(r *http.Request, grpc bool) (reason Reason, refused bool) {
	limits := h.settings.Limits
	lines, size := headSize(r)
	switch {
	case limits.Headers > 0 && lines > limits.Headers:
		return TooManyHeaders, true
	case limits.HeaderBytes > 0 && size > int64(limits.HeaderBytes):
		return HeadTooLarge, true
	case limits.Body > 0 && !grpc && r.ContentLength > int64(limits.Body):
		return BodyLimit, true
	}

	return 0, false
}

// headSize counts the header lines of a request, its Host not among them, and the bytes of its whole head as HTTP/1 writes it.
func headSize(r *http.Request) (lines int, size int64) {
	size = int64(len(r.Method) + len(r.RequestURI) + len(r.Host) + len("  HTTP/1.1\r\nHost: \r\n\r\n"))
	for name, values := range r.Header {
		lines += len(values)
		for _, value := range values {
			size += int64(len(name) + len(value) + len(": \r\n"))
		}
	}

	return lines, size
}

// headRoom is the limit at which net/http itself ends a head, with a plain 431 in place of our own. HTTP/2 counts more for each header than HTTP/1 writes,
// and what it counts is told to clients, so there must be room for that above our own limit; net/http adds 4096 bytes for HTTP/1 and 320 for HTTP/2.
func (c LimitsConfig) headRoom() int {
	return int(c.HeaderBytes) + fieldOverhead*min(c.Headers, mostCounted)
}

// limitOf names the limit behind a reason, as it is set.
func (h *Handler) limitOf(reason Reason) string {
	limits := h.settings.Limits
	switch reason { //nolint:exhaustive // the others are no limits of this kind
	case TooManyHeaders:
		return fmt.Sprintf("limits.headers is %d", limits.Headers)
	case HeadTooLarge:
		return fmt.Sprintf("limits.header_bytes is %s", limits.HeaderBytes)
	case BodyLimit:
		return fmt.Sprintf("limits.body is %s", limits.Body)
	default:
		return ""
	}
}
