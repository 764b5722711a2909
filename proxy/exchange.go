package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

// maxTries bounds how often a request that was never sent is tried again without having been held in between.
const maxTries = 3

// errRefusedBusy is an answer that is thrown away, since the request goes back to the line.
var errRefusedBusy = errors.New("forward request: the backend has too much to do")

// exchange is one request on its way through the proxy. It belongs to the goroutine of its handler.
type exchange struct {
	h        *Handler
	r        *http.Request
	arrived  time.Time
	body     *Body // nil: none
	ticket   Ticket
	deadline deadline
	answer   answerWriter
	id       string // of the request: the caller's or ours
	grpc     bool
	gated    bool // users' work: held, limited and judged
	whole    bool // the answer was written to its end
	tries    int
	sentBack int // times that the backend refused it as busy and it went back to the line

	// What follows belongs to the present attempt.
	ctx     context.Context //nolint:containedctx // the attempt's own
	clock   *clock
	judge   judge
	upload  upload
	began   time.Time
	conn    *backendConn // nil: none was found
	mark    int64        // bytes written on conn before us
	found   bool         // a connection was found
	failure error
}

// exchangeKey is the key of the exchange in the context of its attempts.
type exchangeKey struct{}

// attemptContext carries the exchange to the hooks of the reverse proxy.
type attemptContext struct {
	context.Context //nolint:containedctx // it is one

	x *exchange
}

// Value implements [context.Context].
func (c attemptContext) Value(key any) any {
	if _, ok := key.(exchangeKey); ok {
		return c.x
	}

	return c.Context.Value(key)
}

// run holds the request and forwards it, until it was answered.
func (x *exchange) run() {
	x.readDeadline()
	for {
		outcome := x.h.gate.Wait(x.r.Context(), &x.ticket, x.body)
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

// attempt forwards the request once. It returns true when the request was not taken and goes back to the gate.
func (x *exchange) attempt() (again bool) {
	x.judge = judge{}
	if x.gated {
		x.judge.gate, x.judge.ticket = x.h.gate, &x.ticket
		defer x.h.gate.Done(&x.ticket)
		if x.h.settings.Breaker != nil {
			allowed, err := x.h.settings.Breaker.Allow()
			if err != nil {
				return x.notAllowed(err)
			}
			x.judge.exchange = allowed
		}
		x.h.gate.inFlight.Add(1)
		defer x.h.gate.inFlight.Add(-1)
	}
	defer x.judge.close()
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	x.clock = &clock{}
	x.clock.start(x.h.tunable.Load().timeouts, x.grpc && x.body != nil, cancel, &x.answer)
	defer x.clock.stop()
	defer x.cutOff()
	x.ctx, x.began, x.conn, x.found, x.failure = ctx, time.Now(), nil, false, nil
	x.forward()
	if x.failure != nil {
		return x.settle(x.failure)
	}
	x.whole = true

	return false
}

// forward runs the reverse proxy, which calls back: rewrite, head, failed.
func (x *exchange) forward() {
	ctx := httptrace.WithClientTrace(attemptContext{x.ctx, x}, &httptrace.ClientTrace{
		GotConn:      x.gotConn,
		WroteRequest: func(info httptrace.WroteRequestInfo) { x.wrote(info) },
	})
	out := x.r.WithContext(ctx)
	if x.body != nil {
		x.upload = x.body.begin(x.clock)
		out.Body = x.upload
	}
	if x.grpc {
		x.h.grpc.ServeHTTP(&x.answer, out)
	} else {
		x.h.http.ServeHTTP(&x.answer, out)
	}
}

// gotConn is called before anything is written.
func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	x.found = true
	if conn, ok := info.Conn.(*backendConn); ok && !x.grpc { // an HTTP/2 connection is shared, so its count says nothing about us
		x.conn, x.mark = conn, conn.written.Load()
		conn.check.Store(info.Reused)
	}
}

// wrote is called, possibly by another goroutine, once the request has left.
func (x *exchange) wrote(info httptrace.WroteRequestInfo) {
	if info.Err == nil {
		x.clock.sent()
	}
}

// notAllowed deals with a breaker that is open.
func (x *exchange) notAllowed(err error) (again bool) {
	x.tries++
	if mode := x.h.gate.Mode(); errors.Is(err, circuit.ErrOpen) && (mode == Holding || (mode == Ramping && x.tries <= maxTries)) {
		x.h.gate.NotAllowed(&x.ticket, x.arrived)

		return true
	}
	x.refuse(BreakerOpen)

	return false
}

// settle deals with an attempt that brought no answer to hand on.
func (x *exchange) settle(err error) (again bool) {
	var dial *dialError
	late, isLate := timeUp(x.ctx)
	switch {
	case errors.Is(err, errRefusedBusy):
		x.h.gate.Return(&x.ticket, x.arrived)

		return true
	case x.r.Context().Err() != nil, x.body != nil && x.body.broken() != nil:
		x.leave()
	case isLate:
		if late.blamesBackend() {
			x.judge.broke()
		}
		x.refuse(late.reason)
	case errors.As(err, &dial):
		return x.notConnected(dial)
	case !x.found:
		x.h.logger.Debug("request cannot be forwarded", "error", err)
		x.refuse(BadRequest)
	case x.unsent():
		x.h.pools[0].CloseIdleConnections()
		x.h.gate.Return(&x.ticket, x.arrived)

		return true
	default:
		x.h.logger.Debug("backend broke the connection before an answer", "error", err)
		x.judge.broke()
		x.suspect()
		x.refuse(BackendBroke)
	}

	return false
}

// unsent says whether nothing was written, so that the request may be sent on another connection.
func (x *exchange) unsent() bool {
	x.tries++

	return x.gated && x.conn != nil && x.conn.written.Load() == x.mark && x.tries <= maxTries && (x.body == nil || x.body.rewind())
}

// notConnected deals with an attempt for which there was no connection.
func (x *exchange) notConnected(dial *dialError) (again bool) {
	x.h.logger.Debug("no connection to the backend", "error", dial)
	switch {
	case !x.gated:
		x.refuse(Unreachable)

		return false
	case dial.local():
		// Fewer at once may fit. One that no permit limits would only ask for the same again.
		x.tries++
		if x.tries > maxTries || !x.h.gate.Busy(&x.ticket) {
			x.refuse(LocalExhausted)

			return false
		}
		x.h.gate.Return(&x.ticket, x.arrived)

		return true
	case dial.timeout():
		x.judge.broke()
		x.suspect()
		x.refuse(ConnectTimeout)

		return false
	}
	if x.h.settings.Lost != nil && !errors.Is(dial, errHoldsMeanwhile) {
		x.h.settings.Lost(dial)
	}
	x.tries++
	if x.h.gate.Mode() == Holding {
		x.tries = 0
	}
	if x.tries > maxTries || (x.body != nil && !x.body.rewind()) {
		x.refuse(Unreachable)

		return false
	}
	x.h.gate.Return(&x.ticket, x.arrived)

	return true
}

// streamBroke deals with an answer whose body broke off.
func (x *exchange) streamBroke(err error) {
	late, isLate := timeUp(x.ctx)
	switch {
	case x.r.Context().Err() != nil:
		x.h.logger.Debug("client left", "status", statusClientLeft, "after", time.Since(x.arrived))
	case isLate:
		if late.blamesBackend() {
			x.judge.broke()
		}
	default:
		x.h.logger.Debug("backend broke its answer", "error", err)
		x.judge.broke()
		x.suspect()
	}
}

// cutOff says in the log that time was up for the present attempt, which an answer that has begun does not tell.
func (x *exchange) cutOff() {
	if late, ok := timeUp(x.ctx); ok {
		x.h.logger.Debug("exchange cut off", "reason", late.reason.String(), "after", time.Since(x.arrived))
	}
}

// statusClientLeft is what logs say of a request whose client left, as nginx does. Nothing is written.
const statusClientLeft = 499

// leave ends an exchange whose client left, without a word: net/http would send an empty 200 if the handler just returned.
func (x *exchange) leave() {
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
	rejection := &Rejection{Reason: reason, RetryAfter: x.h.gate.retryAfter()}
	x.h.logger.Debug("request refused", "reason", reason.String())
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
