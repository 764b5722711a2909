package upstream

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// errCancelled is why an exchange ends that was cancelled.
var errCancelled = errors.New("exchange cancelled")

// Exchange is one request and its answer. The zero Exchange is ready for Do, once. Its methods are for one goroutine, but for Cancel.
type Exchange struct {
	// Answer is what Do has read.
	Answer

	transport *Transport
	watcher   Watcher
	request   *Request
	into      http.Header
	opening   *[]byte // what is written first: the head, and as much of the body as goes with it; nil once that must not be written again
	rest      bool    // more is to be sent
	inlined   int64   // bytes of the body that went with the head
	upload    *upload // sends the rest beside
	before    uint64  // bytes written on the connection before us

	mu        sync.Mutex
	conn      *conn // nil: there is none yet, or it has gone back
	stop      context.CancelFunc
	cancelled bool
	cause     error // why we ended it ourselves; nil: whoever cancelled it knows
}

// Do sends the request and reads the head of the answer, whose header it adds to into. ctx is for making a connection and nothing else: Cancel ends the rest.
// After an error into may hold some of what was read; errors are *Error. Close must be called either way.
//
// The request is sent a second time, on another connection, only if the first is known never to have reached the backend and all of it is in memory.
func (e *Exchange) Do(ctx context.Context, t *Transport, r *Request, w Watcher, into http.Header) error {
	e.transport, e.request, e.watcher, e.into = t, r, w, into
	err := e.once(ctx)
	if err != nil && e.undelivered() {
		e.drop()
		err = e.once(ctx)
	}
	if cause := e.broke(); err != nil && cause != nil {
		return cause
	}

	return err
}

// Unsent says, after Do has failed, whether the request is known not to have reached the backend.
func (e *Exchange) Unsent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.conn != nil && e.upload == nil && e.conn.sent == e.before
}

// Cancel ends the exchange now, from any goroutine; it closes the connection unless that has gone back already. It may be called more than once.
func (e *Exchange) Cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancelled = true
	if e.stop != nil {
		e.stop()
	}
	if e.conn != nil {
		_ = e.conn.Close()
	}
}

// Close ends the exchange. The connection is kept for the next one only if the answer was read to its end before, and nothing is left to send.
func (e *Exchange) Close() {
	e.drop()
	e.forget()
}

// once is Do on one connection.
func (e *Exchange) once(ctx context.Context) error {
	e.silent = true
	if err := e.connect(ctx); err != nil {
		return &Error{NotConnected, err}
	}
	if err := e.send(); err != nil {
		return err
	}

	return e.readAnswer()
}

// undelivered says whether the request was put together, is known not to have reached the backend, and can be sent once more.
func (e *Exchange) undelivered() bool {
	e.mu.Lock()
	defer e.mu.Unlock()

	return !e.cancelled && e.conn != nil && e.opening != nil && e.silent && (e.conn.sent == e.before || (e.closed && e.conn.neverRead(e.before)))
}

// connect takes a connection.
func (e *Exchange) connect(ctx context.Context) error {
	ctx, stop := e.cancellable(ctx)
	if stop != nil {
		defer stop()
	}
	c, err := e.transport.connect(ctx, e.watcher)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop = nil
	switch {
	case err == nil && e.cancelled:
		_ = c.Close()

		return errCancelled
	case err != nil:
		return err
	}
	e.conn, e.before = c, c.sent

	return nil
}

// cancellable makes Cancel end ctx, which costs something and is only worth it when there may be a wait.
func (e *Exchange) cancellable(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.transport.pool.len() > 0 {
		return ctx, nil
	}
	ctx, stop := context.WithCancel(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop = stop
	if e.cancelled {
		stop()
	}

	return ctx, stop
}

// abort cancels the exchange and says why.
func (e *Exchange) abort(cause error) {
	e.mu.Lock()
	if e.cause == nil && !e.cancelled {
		e.cause = cause
	}
	e.mu.Unlock()
	e.Cancel()
}

// broke returns why we cancelled the exchange ourselves, if we did.
func (e *Exchange) broke() error {
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.cause
}

// forget gives up what would be needed to send the request again.
func (e *Exchange) forget() {
	if e.opening != nil {
		putBuffer(e.opening)
		e.opening = nil
	}
}

// drop closes the connection, unless it has gone back.
func (e *Exchange) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn != nil {
		_ = e.conn.Close()
		e.conn = nil
	}
}

// finish is called at the end of the answer's body: the connection goes back if another exchange may use it. Whoever cancels later finds none.
func (e *Exchange) finish() {
	reusable := e.reusable && (e.upload == nil || e.upload.done())
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.conn
	if c == nil {
		return
	}
	e.conn = nil
	if !reusable || e.cancelled || c.r.Buffered() > 0 {
		_ = c.Close()

		return
	}
	e.transport.pool.put(c, e.keepAlive)
}
