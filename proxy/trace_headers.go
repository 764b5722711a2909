package proxy

import (
	"net/http"
	"strings"
)

// traceHeaders lets a propagator read and write the headers of a request. What a trace's vendors and users wrote is theirs: tracestate stays as it came as long as
// its trace goes on, byte for byte, and so does everything that is not a trace context.
type traceHeaders struct {
	http.Header

	restarted bool // the trace is a new one: what came belongs to none
}

const (
	traceparent = "Traceparent"
	tracestate  = "Tracestate"
	b3Single    = "B3"
	b3Trace     = "X-B3-Traceid"
	b3Parent    = "X-B3-Parentspanid"
	b3Span      = "X-B3-Spanid"
	b3Sampled   = "X-B3-Sampled"
)

// Get implements [propagation.TextMapCarrier]. Tracestate may come in several lines, which belong together.
func (t traceHeaders) Get(key string) string {
	if strings.EqualFold(key, tracestate) {
		return strings.Join(t.Values(tracestate), ",")
	}

	return t.Header.Get(key)
}

// Set implements [propagation.TextMapCarrier].
func (t traceHeaders) Set(key, value string) {
	key = http.CanonicalHeaderKey(key)
	if key == tracestate {
		return
	}
	t.Header[key] = []string{value}
	switch key {
	case b3Span:
		delete(t.Header, b3Parent) // it names the parent of the caller's span, and would be taken for that of ours
	case traceparent:
		if t.restarted {
			delete(t.Header, tracestate)
		}
	}
}

// Keys implements [propagation.TextMapCarrier].
func (t traceHeaders) Keys() []string {
	keys := make([]string, 0, len(t.Header))
	for key := range t.Header {
		keys = append(keys, key)
	}

	return keys
}

// declined says, of headers that are read in these forms, whether the caller has decided that the request is not to be traced. It sees what is plain without parsing, which is
// nearly all there is; the rest is seen by the propagator.
func declined(h http.Header, w3c, b3 bool) bool {
	parent, single, multi := h[traceparent], h[b3Single], h[b3Sampled]
	if w3c && len(parent) == 1 && (!b3 || (single == nil && h[b3Trace] == nil)) {
		const length = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-00")

		return len(parent[0]) == length && strings.HasPrefix(parent[0], "00-") && strings.IndexByte("02468aceACE", parent[0][length-1]) >= 0
	}

	return b3 && parent == nil && ((len(single) == 1 && single[0] == "0") || (len(multi) == 1 && (multi[0] == "0" || multi[0] == "false")))
}
