package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/proxy/upstream"
)

// attempt is one attempt to deliver a request to the backend and its answer to the client. It belongs to the goroutine of its handler; readers of
// the body and timers that it leaves behind find it ended.
type attempt struct {
	x      *exchange
	clock  clock
	judge  judge
	upload upload // of the body, if there is one
	began  time.Time
	busy   bool                               // the backend refused the request, which goes back to the line
	ahead  ahead                              // of the answer's body, what was read to see what it says
	cancel atomic.Pointer[context.CancelFunc] // of the standard transport

	ours bool // the exchange is our own, not the standard transport's

	// What follows is the patrol's, and guarded by its lock.
	next, prev *attempt
	young      bool        // in its list
	stop       func() bool // ends the wait for the client to leave; nil: nobody waits

	tunnel atomic.Pointer[net.Conn] // the client's connection, once it has switched protocols

	exchange upstream.Exchange
	request  upstream.Request
	fields   [12]upstream.Field // room for those of the request

	// What follows is known of the standard transport.
	conn  *backendConn // nil: none was found
	mark  int64        // bytes written on conn before us
	found bool         // a connection was found
}

// attempt forwards the request once. It returns true when the request was not taken and goes back to the gate.
func (x *exchange) attempt() (again bool) {
	a := &x.first
	if x.now != nil {
		a = new(attempt) // the first one's readers may still be there
	}
	x.now, a.x = a, x
	if x.gated {
		a.judge.gate, a.judge.ticket = x.h.gate, &x.ticket
		defer x.h.gate.Done(&x.ticket)
		if x.h.settings.Breaker != nil {
			asked := x.span.now()
			allowed, err := x.h.settings.Breaker.Allow()
			x.span.asked(asked, x.span.now(), err == nil)
			if err != nil {
				return x.notAllowed(err)
			}
			a.judge.exchange = allowed
			if x.body != nil {
				x.body.shaped(allowed)
			}
		}
		x.h.gate.inFlight.Add(1)
		defer x.h.gate.inFlight.Add(-1)
	}
	defer a.judge.close()
	a.began = time.Now()
	a.ours = !x.overH2() && x.h.direct != nil
	a.clock.start(x.h.tunable.Load().timeouts, a)
	x.h.patrol.join(a)
	defer a.end()
	if x.body != nil {
		a.upload = x.body.begin(&a.clock)
		if x.gated {
			limits := x.h.tunable.Load()
			x.body.retain(&x.h.gate.budget, limits.maxBody, limits.maxStreamBody)
		}
		if !x.body.small() {
			x.body.watch(a.abort)
		}
	}
	x.span.forward(x.attempts)
	x.attempts++
	defer a.report()
	if err := a.forward(); err != nil {
		again = x.settle(err)
		a.busy = errors.Is(err, errRefused)

		return again
	}
	x.whole = true

	return false
}

// forward sends the request and hands on the answer.
func (a *attempt) forward() error {
	if a.ours {
		return a.direct()
	}

	return a.standard()
}

// report tells metrics and traces of a user's attempt that is over.
func (a *attempt) report() {
	x := a.x
	if !x.gated {
		return
	}
	verdict, why := a.judge.final(), x.cause
	switch {
	case why != answered:
	case a.judge.busy || a.busy:
		why = busy
	case verdict == circuit.Bad:
		why = serverError
	}
	x.span.forwarded(verdict, why)
	x.h.meter.attempted(x.span.context(), verdict, why)
}

// end ends the watch, and says in the log if time was up, which an answer that has begun does not tell.
func (a *attempt) end() {
	a.x.h.patrol.leave(a)
	a.clock.stop()
	if a.x.body != nil {
		_ = a.upload.Close()
	}
	if reason, ok := a.clock.timeUp(); ok {
		a.x.h.logger.Debug("exchange cut off", "reason", reason.String(), "after", time.Since(a.x.arrived))
	}
}

// abort ends the attempt now, from any goroutine.
func (a *attempt) abort() {
	if !a.ours {
		if cancel := a.cancel.Load(); cancel != nil {
			(*cancel)()
		}

		return
	}
	a.exchange.Cancel()
	if client := a.tunnel.Load(); client != nil {
		_ = (*client).Close()
	}
}

// head takes the head of the backend's answer, and may look at the begin of its body. It returns an error if the answer is thrown away, since the request goes
// back to the line.
func (a *attempt) head(status int, length int64, header http.Header, body io.Reader) error {
	x := a.x
	x.span.head(status)
	loading := x.gated && a.loading(status, header, body)
	limited := a.judge.head(status, length, header, x.grpc, loading)
	if (loading || (limited && x.ticket.Held() > 0)) && x.h.tunable.Load().requeueRefused && x.onceMore() {
		return errRefused
	}
	if x.body != nil {
		x.body.forget()
	}
	x.answer.length = length

	return nil
}

// switched takes note that the backend has switched to another protocol.
func (a *attempt) switched() {
	a.clock.tunnel()
	a.judge.verdict = circuit.Good
	a.judge.start()
}

// streamBroke deals with an answer whose body broke off.
func (a *attempt) streamBroke(err error) {
	x := a.x
	reason, late := a.clock.timeUp()
	switch {
	case x.r.Context().Err() != nil:
		x.cause = clientLeft
		x.h.logger.Debug("client left", "status", statusClientLeft, "after", time.Since(x.arrived))
	case x.tooLong(): // it was we who broke the request off
		x.cause = because(BodyLimit)
	case late:
		x.cause = because(reason)
		if reason.blamesBackend() {
			a.judge.broke()
		}
	default:
		x.cause = streamBroken
		x.h.logger.Debug("backend broke its answer", "error", err)
		a.judge.broke()
		x.suspect()
	}
}
