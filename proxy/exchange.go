package proxy

import (
	"net/http"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

// exchange is one request on its way through the proxy. It belongs to the goroutine of its handler.
type exchange struct {
	h        *Handler
	r        *http.Request
	arrived  time.Time
	body     *Body // own, or nil: none
	own      Body
	ticket   Ticket
	deadline deadline
	answer   answerWriter
	id       string // of the request: the caller's or ours
	grpc     bool
	to       Target // of the listener
	gated    bool   // users' work: held, limited and judged
	whole    bool   // the answer was written to its end
	tries    int
	attempts int      // begun so far
	refused  bool     // the backend said once that it had not taken it, so that it was sent again
	now      *attempt // the present one, or the latest; nil before the first
	first    attempt
	scan     shapeScan // of the body

	// What follows is for metrics and traces.
	span      requestSpan
	cause     cause
	outcome   Outcome // of the latest hold; Proceed where there was none
	firstByte time.Duration
}

// run holds the request and forwards it, until it was answered.
func (x *exchange) run() {
	x.readDeadline()
	for {
		outcome := x.wait()
		if outcome == Proceed && x.expired() {
			x.h.gate.Done(&x.ticket)
			outcome = Expired
		}
		if outcome != Proceed {
			x.turnAway(outcome)

			return
		}
		if !x.attempt() {
			return
		}
	}
}

// wait waits at the gate.
func (x *exchange) wait() Outcome {
	before := x.ticket.Held()
	outcome := x.h.gate.Wait(x.r.Context(), &x.ticket, x.body)
	if held := x.ticket.Held() - before; held > 0 || outcome != Proceed {
		x.outcome = outcome
		now := time.Now()
		x.span.held(now.Add(-held), now, outcome)
	}

	return outcome
}

// close ends what reads the client's body. The handler must not return before.
func (x *exchange) close() { x.body.finish(x.whole) }

// turnAway answers a request that may not proceed.
func (x *exchange) turnAway(outcome Outcome) {
	switch outcome {
	case Full:
		x.refuse(HoldFull)
	case TooLarge:
		x.refuse(BodyTooLarge)
	case TimedOut:
		x.refuse(HoldTimeout)
	case Crowded:
		x.refuse(CrowdTimeout)
	case Expired:
		x.refuse(DeadlineExceeded)
	case Hopeless:
		x.refuse(NotInTime)
	case Drained:
		x.refuse(PodDraining)
	case Refused:
		x.refuse(x.h.gate.refusal())
	case Gone, Proceed:
		x.leave()
	}
}

// statusClientLeft is what logs say of a request whose client left, as nginx does. Nothing is written.
const statusClientLeft = 499

// leave ends an exchange whose client left, without a word: net/http would send an empty 200 if the handler just returned.
func (x *exchange) leave() {
	if x.tooLong() {
		x.refuse(BodyLimit)

		return
	}
	x.cause = clientLeft
	x.h.logger.Debug("client left", "status", statusClientLeft, "after", time.Since(x.arrived))
	panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to say so
}

// suspect asks for a look at the backend.
func (x *exchange) suspect() {
	if x.h.settings.Suspect != nil {
		x.h.settings.Suspect()
	}
}

// refuse answers instead of the backend.
func (x *exchange) refuse(reason Reason) {
	rejection := &Rejection{Reason: reason, Detail: x.h.limitOf(reason), RetryAfter: x.h.gate.retryAfter()}
	if x.h.settings.State != nil {
		rejection.State = x.h.settings.State().String()
	}
	x.h.logger.Debug("request refused", "reason", reason.String())
	x.cause = because(reason)
	x.h.meter.refused(x.span.context(), reason)
	if x.body != nil {
		x.body.refuse()
	}
	id := x.requestID()
	clear(x.answer.Header()) // what an attempt may have left
	x.answer.Header().Set("X-Request-ID", id)
	if x.grpc {
		rejection.WriteGRPC(&x.answer)
	} else {
		rejection.WriteHTTP(&x.answer, id)
	}
	if x.body != nil && x.r.ProtoMajor == 1 {
		x.answer.flush() // before the rest of the upload is read
	}
	x.whole = true
}

// observe tells of a user's request whose answer has begun well.
func (x *exchange) observe() {
	if x.h.settings.Observed == nil || x.body == nil || x.now == nil || x.firstByte == 0 || x.now.judge.final() != circuit.Good || x.answer.status >= http.StatusBadRequest {
		return
	}
	if shape := x.body.shape(); shape != (RequestShape{}) {
		x.h.settings.Observed(Observation{Shape: shape, FirstByte: x.firstByte - x.now.began.Sub(x.arrived)})
	}
}

// report tells metrics and traces of a user's request that is over.
func (x *exchange) report() {
	x.observe()
	if x.h.meter == nil && !x.span.recording() {
		return
	}
	e := ending{
		method: x.r.Method, major: x.r.ProtoMajor, minor: x.r.ProtoMinor, grpc: x.grpc,
		status: x.answer.status, cause: x.cause, took: time.Since(x.arrived), firstByte: x.firstByte,
		held: x.ticket.Held(), outcome: x.outcome, sent: x.answer.written,
	}
	if x.body != nil {
		e.received = x.body.received()
	}
	if x.grpc {
		if e.grpcStatus = x.answer.Header().Get("Grpc-Status"); e.grpcStatus == "" && x.now != nil {
			e.grpcStatus = x.now.judge.code
		}
	}
	x.h.meter.ended(x.span.context(), &e)
	x.span.end(&e)
}
