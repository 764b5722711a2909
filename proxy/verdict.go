package proxy

import (
	"net/http"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

// smallAnswer is the length up to which an answer is judged at its end and not at its first byte, in bytes.
const smallAnswer = 64 << 10

// judgeStatus judges an HTTP answer by its status, as soon as it is known.
//
// A timely 4xx shows a backend that is alive; 408 and 429 say nothing. A 5xx is bad, but a 503 that names a time to come back says that the backend is busy,
// not sick: no verdict, and fewer permits.
func judgeStatus(status int, header http.Header) (verdict circuit.Verdict, busy bool) {
	switch {
	case status == http.StatusTooManyRequests:
		return circuit.None, true
	case status == http.StatusRequestTimeout:
		return circuit.None, false
	case status == http.StatusServiceUnavailable && header.Get("Retry-After") != "":
		return circuit.None, true
	case status >= http.StatusInternalServerError:
		return circuit.Bad, false
	default:
		return circuit.Good, false
	}
}

// judgeGRPC judges a gRPC status. A call that the caller itself ended says nothing.
func judgeGRPC(status string) (verdict circuit.Verdict, busy bool) {
	switch status {
	case "1", "4": // CANCELLED, DEADLINE_EXCEEDED
		return circuit.None, false
	case "8": // RESOURCE_EXHAUSTED
		return circuit.None, true
	case "2", "13", "14", "15": // UNKNOWN, INTERNAL, UNAVAILABLE, DATA_LOSS
		return circuit.Bad, false
	default:
		if codeIndex(status) == grpcUnknown {
			return circuit.Bad, false // what is no status
		}

		return circuit.Good, false
	}
}

// judge turns what happens in one attempt into at most one start verdict and at most one break, for the breaker and the gate.
// It belongs to the goroutine that runs the attempt; close is its last call, in a defer.
type judge struct {
	exchange circuit.Exchange // does nothing where there is no breaker
	gate     *Gate
	ticket   *Ticket

	verdict circuit.Verdict
	busy    bool
	code    string // of gRPC, as far as it is known
	grpc    bool
	atEnd   bool // the start verdict waits for the end of the answer
	started bool
	broken  bool
}

// head takes what the answer's head says, and whether the answer is that a model is being loaded. It returns true when the backend refused as busy a request that a permit had let through.
func (j *judge) head(status int, length int64, header http.Header, grpc, loading bool) (limited bool) {
	j.grpc = grpc
	j.verdict, j.busy = judgeStatus(status, header)
	if code := header.Get("Grpc-Status"); grpc && code != "" && status == http.StatusOK {
		j.code = code
		j.verdict, j.busy = judgeGRPC(code)
	}
	if loading {
		j.verdict, j.busy = circuit.None, true
	}
	j.atEnd = length >= 0 && length <= smallAnswer
	if j.busy && j.gate != nil {
		return j.gate.Busy(j.ticket)
	}

	return false
}

// bytes takes a piece of the answer's body.
func (j *judge) bytes() {
	j.exchange.Progress()
	if !j.atEnd {
		j.start()
	}
}

// end takes the end of the answer's body, and its trailers.
func (j *judge) end(trailer http.Header) {
	if status := trailer.Get("Grpc-Status"); j.grpc && status != "" {
		j.code = status
		verdict, busy := judgeGRPC(status)
		switch {
		case busy && j.gate != nil:
			j.gate.Busy(j.ticket)
		case verdict == circuit.Bad && j.started:
			j.broken = true // takes the place of the good start
		}
		if !j.started {
			j.verdict = verdict
		}
	}
	j.start()
}

// start gives the start verdict, once.
func (j *judge) start() {
	if j.started {
		return
	}
	j.started = true
	if j.verdict == circuit.Good && j.gate != nil {
		j.gate.Good(j.ticket)
	}
	j.exchange.Start(j.verdict)
}

// broke says that the answer broke off, or never began, through the backend's fault.
func (j *judge) broke() {
	if j.started {
		j.broken = true

		return
	}
	j.verdict = circuit.Bad
	j.start()
}

// final is the verdict that stands: a break takes the place of a good start.
func (j *judge) final() circuit.Verdict {
	switch {
	case j.broken:
		return circuit.Bad
	case j.started:
		return j.verdict
	default:
		return circuit.None
	}
}

// close ends the attempt.
func (j *judge) close() { j.exchange.End(j.broken) }

// isGRPC says whether r is a gRPC call. gRPC-Web is plain HTTP to us.
func isGRPC(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.Header.Get("Content-Type"), "application/grpc")

	return ok && r.ProtoMajor == 2 && (rest == "" || rest[0] == '+' || rest[0] == ';')
}
