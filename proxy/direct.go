package proxy

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/pilotlight-proxy/pilotlight/proxy/upstream"
)

// direct forwards the request over a connection of our own: nothing is copied but bytes, and all of it happens in this goroutine.
func (a *attempt) direct() error {
	x := a.x
	defer a.exchange.Close()
	a.describe()
	header := x.answer.Header()
	if err := a.exchange.Do(x.r.Context(), x.h.direct, &a.request, a, header); err != nil {
		clear(header)
		if failed, ok := errors.AsType[*upstream.Error](err); ok && failed.Reason == upstream.Unfit {
			return errors.Join(errUnfit, err)
		}

		return err //nolint:wrapcheck // it is told apart by its kind
	}
	if a.exchange.Status == http.StatusSwitchingProtocols {
		a.switched()

		return a.connect(header)
	}
	if err := a.head(a.exchange.Status, a.exchange.Length, header, &a.exchange); err != nil {
		clear(header)

		return err
	}
	if names := a.exchange.Trailers; len(names) > 0 {
		header["Trailer"] = names
	}
	x.answer.WriteHeader(a.exchange.Status)
	a.copyAnswer()

	return nil
}

// describe says what goes to the backend.
func (a *attempt) describe() {
	in := a.x.r
	a.request = upstream.Request{
		Method: in.Method, Target: target(in, a.x.h.settings.Backend.Base), Host: in.Host,
		Header: in.Header, Fields: a.outgoing(), Trailer: in.Trailer,
	}
	if a.x.body != nil {
		a.request.Body, a.request.Length = &a.upload, a.x.body.length
		a.request.Ready, a.request.Expect = a.x.body.ready(), a.x.body.awaited()
	} else if in.ProtoMajor == 1 && httpguts.HeaderValuesContainsToken(in.Header["Connection"], "upgrade") {
		// HTTP/2 by upgrade would take the connection out of our hands.
		if to := strings.Join(in.Header["Upgrade"], ", "); !httpguts.HeaderValuesContainsToken(in.Header["Upgrade"], "h2c") {
			a.request.Upgrade = to
		}
	}
}

// Dialed implements [upstream.Watcher].
func (a *attempt) Dialed() error {
	if a.x.gated && a.x.h.gate.Mode() == Holding {
		return &dialError{errHoldsMeanwhile}
	}

	return nil
}

// Sent implements [upstream.Watcher].
func (a *attempt) Sent() { a.clock.sent() }

// Interim implements [upstream.Watcher].
func (a *attempt) Interim(status int, header http.Header) {
	if !a.x.r.ProtoAtLeast(1, 1) {
		return // HTTP/1.0 knows none
	}
	to := a.x.answer.Header()
	maps.Copy(to, header)
	a.x.answer.WriteHeader(status)
	if a.x.r.Context().Err() != nil {
		a.x.leave() // net/http's HTTP/2 may still be about to write what is in the header
	}
	clear(to)
}

// copyAnswer copies the body of the answer to the client. An answer that breaks off must not look complete.
func (a *attempt) copyAnswer() {
	buffer := buffers{}.Get()
	defer buffers{}.Put(buffer)
	flow := newFlow(a.x)
	for {
		if flow.due(a.x.answer.written) && a.splice(&flow) {
			return
		}
		a.clock.waiting()
		n, err := a.ahead.read(buffer, &a.exchange)
		a.read(buffer[:n], err, a.exchange.Trailer())
		if n > 0 {
			if _, failed := a.x.answer.Write(buffer[:n]); failed != nil {
				a.x.leave()
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			a.addTrailer()

			return
		case err != nil:
			panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to break an answer off
		}
	}
}

// addTrailer hands on what followed the body, whether it was announced or not.
func (a *attempt) addTrailer() {
	to := a.x.answer.Header()
	for name, values := range a.exchange.Trailer() {
		if !slices.Contains(a.exchange.Trailers, name) {
			name = http.TrailerPrefix + name
		}
		to[name] = values
	}
}

// read tells the clock and the judge what has come of the answer's body.
func (a *attempt) read(piece []byte, err error, trailer http.Header) {
	if len(piece) > 0 || err != nil {
		a.clock.got()
	}
	if len(piece) > 0 {
		if a.x.firstByte == 0 {
			a.x.firstByte = time.Since(a.x.arrived)
			a.x.span.firstByte()
		}
		a.judge.bytes()
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		a.x.span.lastByte()
		a.judge.end(trailer)
	default:
		a.streamBroke(err)
	}
}

// unsent says whether nothing was written to the backend.
func (a *attempt) unsent() bool {
	if a.conn != nil {
		return a.conn.written.Load() == a.mark
	}

	return a.ours && a.exchange.Unsent()
}
