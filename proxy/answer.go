package proxy

import (
	"net/http"
	"strconv"
	"time"
)

// answerWriter is the client's side of an exchange: it completes the head of the answer before it leaves.
type answerWriter struct {
	http.ResponseWriter

	x     *exchange
	wrote bool
}

// Unwrap lets [http.ResponseController] reach what is below.
func (a *answerWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (a *answerWriter) WriteHeader(status int) {
	if status >= http.StatusOK && !a.wrote {
		a.wrote = true
		a.complete(a.Header())
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answerWriter) Write(p []byte) (int, error) {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}

	return a.ResponseWriter.Write(p) //nolint:wrapcheck // a writer hands errors on
}

// complete adds what is ours to the head of the answer.
func (a *answerWriter) complete(h http.Header) {
	x := a.x
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or net/http would guess one from the body
	}
	unread := x.body != nil && x.r.ProtoMajor == 1 && !x.body.ended()
	if unread || x.h.closing.Load() {
		// The rest of an upload that the backend did not want would be taken for the next request. On HTTP/2 the header becomes a GOAWAY.
		h.Set("Connection", "close")
	}
	if x.h.settings.ServerTiming && x.gated && !x.grpc {
		h.Add("Server-Timing", x.timing())
	}
}

// timing is the value of Server-Timing, in milliseconds.
func (x *exchange) timing() string {
	value := appendMilliseconds(append(make([]byte, 0, 48), "hold;dur="...), x.ticket.Held())
	if !x.began.IsZero() {
		value = appendMilliseconds(append(value, ", backend;dur="...), time.Since(x.began))
	}

	return string(value)
}

func appendMilliseconds(to []byte, d time.Duration) []byte {
	return strconv.AppendFloat(to, float64(d.Microseconds())/1000, 'f', -1, 64)
}
