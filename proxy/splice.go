package proxy

import (
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// spliceAfter is how much of an answer is copied before the kernel is let move the rest, in bytes: it shows whether the client takes it as it comes.
	spliceAfter = 1 << 20
	// splicePiece is how much the kernel moves at a time, in bytes. Within a piece nobody sees how far it has come.
	splicePiece = 1 << 20
	// spliceWithin is how long a piece may take. An answer that flows more slowly is copied, where each write has its own clock.
	spliceWithin = 250 * time.Millisecond
)

// flow decides when to splice. It belongs to one attempt.
type flow struct {
	to    io.ReaderFrom // nil: the client's connection is none that the kernel can move bytes to, or does not take them fast enough
	began instant
}

// newFlow looks at the client's connection: HTTP/1 over TCP without TLS.
func newFlow(x *exchange) flow {
	to, _ := x.answer.ResponseWriter.(io.ReaderFrom)
	if x.r.TLS != nil || x.r.ProtoMajor != 1 || x.answer.length < spliceAfter+splicePiece || !overTCP(x.r) {
		return flow{}
	}

	return flow{to: to, began: moment()}
}

// overTCP says whether the client's connection is a plain TCP one.
func overTCP(r *http.Request) bool {
	conn, _ := r.Context().Value(clientKey{}).(net.Conn)
	if counted, ok := conn.(*clientConn); ok {
		conn = counted.Conn
	}
	_, ok := conn.(*net.TCPConn)

	return ok
}

// due says whether enough was copied, given how much, and fast enough. It says so once; from then on the splicing decides.
func (f *flow) due(copied int64) bool {
	if f.to == nil || copied < spliceAfter {
		return false
	}
	if took := time.Duration(moment() - f.began); took > spliceWithin {
		f.to = nil

		return false
	}

	return true
}

// splice lets the kernel move the rest of the answer, as long as it flows, and returns whether that was all.
func (a *attempt) splice(f *flow) (done bool) {
	x := a.x
	for f.to != nil {
		began := moment()
		a.clock.splicing()
		n, err := a.exchange.Splice(f.to, splicePiece)
		a.clock.spliced()
		x.answer.written += n
		if time.Duration(moment()-began) > spliceWithin {
			f.to = nil
		}
		if n > 0 {
			a.judge.exchange.Progress()
		}
		switch {
		case err == nil && n == 0:
			f.to = nil // it cannot be spliced
		case err == nil:
		case a.exchange.Ended():
			x.span.lastByte()
			a.judge.end(nil)

			return true
		default:
			if socket := clientSocket(x.r.Context()); socket != nil && hungUp(socket) {
				x.leave()
			}
			a.streamBroke(err)
			panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to break an answer off
		}
	}

	return false
}
