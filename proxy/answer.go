package proxy

import (
	"net/http"
	"strconv"
	"time"
)

// answerWriter is the client's side of an exchange: it completes the head of the answer before it leaves.
type answerWriter struct {
	http.ResponseWriter

	x       *exchange
	wrote   bool
	status  int   // 0: none was written
	unread  bool  // the client is still sending a body that nobody will take
	length  int64 // of the answer's body, where it is known; below 0 otherwise
	written int64
}

// Unwrap lets [http.ResponseController] reach what is below.
func (a *answerWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (a *answerWriter) WriteHeader(status int) {
	if status >= http.StatusOK && !a.wrote {
		a.wrote, a.status = true, status
		a.complete(a.Header())
	}
	a.ResponseWriter.WriteHeader(status)
	if status >= http.StatusOK && (a.length < 0 || a.length > smallAnswer) { // the first byte of the body may take its time
		if now := a.x.now; now != nil {
			now.clock.write()
			defer now.clock.written()
		}
		a.flush()
	}
}

// Write implements [http.ResponseWriter].
func (a *answerWriter) Write(p []byte) (int, error) {
	if !a.wrote {
		a.WriteHeader(http.StatusOK)
	}

	if now := a.x.now; now != nil {
		now.clock.write()
		defer now.clock.written()
	}
	n, err := a.ResponseWriter.Write(p)
	if a.written += int64(n); a.length < 0 || a.written < a.length || a.unread {
		a.flush() // the end of an answer is flushed by the server, but not before the rest of an upload has been read
	}

	return n, err //nolint:wrapcheck // a writer hands errors on
}

// flush sends what is there. An error shows at the next write.
func (a *answerWriter) flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// interrupt breaks a write that the client does not take. The connection is of no use any more, or on HTTP/2 the stream.
func (a *answerWriter) interrupt() {
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
}

// complete adds what is ours to the head of the answer.
func (a *answerWriter) complete(h http.Header) {
	x := a.x
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or net/http would guess one from the body
	}
	a.unread = x.body != nil && x.r.ProtoMajor == 1 && !x.body.ended()
	if a.unread || x.h.closing.Load() || x.h.aged(x.r) {
		// The rest of an upload that the backend did not want would be taken for the next request. On HTTP/2 the header becomes a GOAWAY.
		h.Set("Connection", "close")
	}
	if x.h.tunable.Load().serverTiming && x.gated && !x.grpc {
		h.Add("Server-Timing", x.timing())
	}
}

// timing is the value of Server-Timing, in milliseconds.
func (x *exchange) timing() string {
	value := appendMilliseconds(append(make([]byte, 0, 48), "hold;dur="...), x.ticket.Held())
	if x.now != nil && !x.now.began.IsZero() {
		value = appendMilliseconds(append(value, ", backend;dur="...), time.Since(x.now.began))
	}

	return string(value)
}

func appendMilliseconds(to []byte, d time.Duration) []byte {
	return strconv.AppendFloat(to, float64(d.Microseconds())/1000, 'f', -1, 64)
}
