package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Rejection is an answer by Pilotlight itself. It renders as HTTP (RFC 9457) and as gRPC (trailers only).
type Rejection struct {
	Reason Reason
	// Detail says which limit it was, where there is one to name; empty otherwise.
	Detail string
	// State is that of the pod; empty where nobody knows it.
	State string
	// RetryAfter is when to come back, in whole seconds of at least 1, for reasons that are retryable.
	RetryAfter time.Duration
}

// problem is the body of an HTTP rejection.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Reason    Reason `json:"reason"`
	State     string `json:"state,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// WriteHTTP answers with problem details.
func (r *Rejection) WriteHTTP(w http.ResponseWriter, requestID string) {
	facts := reasons[r.Reason]
	body, err := json.Marshal(problem{Type: "about:blank", Title: facts.title, Status: facts.status, Detail: r.Detail, Reason: r.Reason, State: r.State, RequestID: requestID})
	if err != nil {
		body = nil // strings and numbers always marshal
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	if facts.retry && r.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(r.RetryAfter/time.Second), 10))
	}
	w.WriteHeader(facts.status)
	_, _ = w.Write(body) // a client that left does not read it
}

// WriteGRPC answers with a status in the only head of the answer, which gRPC calls trailers-only. The pushback tells the client's retry policy when to come
// back; a negative one tells it not to.
func (r *Rejection) WriteGRPC(w http.ResponseWriter) {
	facts := reasons[r.Reason]
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	r.writeStatus(h)
	pushback := int64(-1)
	if facts.retry && r.RetryAfter > 0 {
		pushback = r.RetryAfter.Milliseconds()
	}
	h.Set("Grpc-Retry-Pushback-Ms", strconv.FormatInt(pushback, 10))
	w.WriteHeader(http.StatusOK)
}

// writeStatus writes the gRPC status where it belongs: into the trailers, or into the only head of the answer.
func (r *Rejection) writeStatus(h http.Header) {
	facts := reasons[r.Reason]
	text := facts.title
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	h.Set("Grpc-Status", strconv.Itoa(facts.grpc))
	h.Set("Grpc-Message", percentEncode(text+" ("+facts.name+")"))
}

// percentEncode encodes a gRPC message as its wire format demands.
func percentEncode(text string) string {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			out.WriteByte(c)
		} else {
			out.WriteByte('%')
			out.WriteByte(digits[c>>4])
			out.WriteByte(digits[c&15])
		}
	}

	return out.String()
}
