package proxy

import (
	"errors"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

// maxTries bounds how often a request that was never sent is tried again without having been held in between.
const maxTries = 3

// errRefused is an answer that is thrown away, since the request goes back to the line.
var errRefused = errors.New("forward request: the backend has too much to do, or is loading its model")

// errUnfit is a request that cannot be written as it is.
var errUnfit = errors.New("the request cannot be forwarded as it is")

// onceMore says whether a request that the backend has said not to have taken may be sent again, which it may once, if all of its body is still there:
// in memory, or, where none of it was asked for, with the client.
func (x *exchange) onceMore() bool {
	if x.refused || (x.body != nil && !x.body.again(x.h.tunable.Load().maxBody)) {
		return false
	}
	x.refused = true

	return true
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
	late, isLate := x.now.clock.timeUp()
	switch {
	case errors.Is(err, errRefused):
		x.h.gate.Return(&x.ticket, x.arrived)

		return true
	case x.r.Context().Err() != nil:
		x.leave()
	case isLate:
		if late.blamesBackend() {
			x.now.judge.broke()
		}
		x.refuse(late)
	case x.body != nil && x.body.broken() != nil:
		x.leave()
	case errors.As(err, &dial):
		return x.notConnected(dial)
	case errors.Is(err, errNoHTTP2):
		x.refuse(NoGRPC)
	case errors.Is(err, errUnfit):
		x.h.logger.Debug("request cannot be forwarded", "error", err)
		x.refuse(BadRequest)
	case x.unsent():
		x.h.gate.Return(&x.ticket, x.arrived)

		return true
	default:
		x.h.logger.Debug("backend broke the connection before an answer", "error", err)
		x.now.judge.broke()
		x.suspect()
		x.refuse(BackendBroke)
	}

	return false
}

// unsent says whether nothing was written, so that the request may be sent on another connection.
func (x *exchange) unsent() bool {
	x.tries++

	return x.gated && x.now.unsent() && x.tries <= maxTries && (x.body == nil || x.body.rewind())
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
		x.now.judge.broke()
		x.suspect()
		x.refuse(ConnectTimeout)

		return false
	}
	if x.h.preface != nil {
		x.h.preface.forget()
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
