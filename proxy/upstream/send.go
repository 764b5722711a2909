package upstream

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// maxInline is the most bytes of head and body that are written in one piece by the goroutine of the exchange itself. Sockets take that much from a writer whose reader does
// not read; with more, both ends could wait for each other for ever.
const maxInline = 64 << 10

// nearlySent is how long the end of an answer may wait for the end of its request, which the backend has most likely read.
const nearlySent = 20 * time.Millisecond

// chunkRoom is the room for a chunk's length and its line ends.
const chunkRoom = 20

// buffers lends the memory in which requests are put together.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 8<<10); return &b }}

func getBuffer() *[]byte {
	b, _ := buffers.Get().(*[]byte)

	return b
}

func putBuffer(b *[]byte) {
	if cap(*b) <= maxInline+readBuffer {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// send writes the request: all of it, when it is small and there; else its head, and the body beside.
func (e *Exchange) send() error {
	if e.opening == nil {
		if err := e.open(); err != nil {
			return err
		}
	}
	if _, err := e.conn.Write(*e.opening); err != nil && e.conn.sent == e.before {
		return &Error{Broken, err}
	} // a backend that has answered and closed lets no more be written, so any other error counts only if there is no answer to read
	if !e.rest {
		e.watcher.Sent()

		return nil
	}
	e.forget()
	e.upload = newUpload(e)
	if !e.request.Expect {
		e.upload.start()
	}

	return nil
}

// open puts together what is written first.
func (e *Exchange) open() error {
	e.opening = getBuffer()
	head, err := appendHead(*e.opening, e.request)
	*e.opening = head
	if err != nil {
		e.forget()

		return &Error{Unfit, err}
	}
	if err := e.inline(); err != nil {
		e.forget()

		return &Error{BodyBroken, err}
	}

	return nil
}

// inline adds a body to the head that is so small that both fit in one write. A body of which nothing, or not all, is there at once goes beside:
// the backend may want to answer before the client has sent it, and may close the connection while it waits for that.
func (e *Exchange) inline() error {
	r, head := e.request, len(*e.opening)
	e.rest = r.Body != nil
	if !e.rest || r.Expect || !r.Ready || r.Length < 0 || int64(head)+r.Length > maxInline {
		return nil
	}
	*e.opening = slices.Grow(*e.opening, int(r.Length))
	n, err := r.Body.Read((*e.opening)[head : head+int(r.Length)])
	*e.opening = (*e.opening)[:head+n]
	e.inlined = int64(n)
	e.rest = e.inlined < r.Length
	switch {
	case !e.rest:
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	default:
		return err
	}
}

// upload sends a body beside the reading of the answer.
type upload struct {
	exchange *Exchange
	conn     *conn
	request  *Request
	left     int64 // bytes that are to be sent; below 0: not known
	started  bool
	finished chan struct{}
	complete bool // all was sent; set before finished is closed
}

func newUpload(e *Exchange) *upload {
	u := &upload{exchange: e, conn: e.conn, request: e.request, left: -1, finished: make(chan struct{})}
	if r := e.request; r.Length >= 0 {
		u.left = r.Length - e.inlined
	}

	return u
}

// start begins to send. It is harmless once it has begun.
func (u *upload) start() {
	if !u.started {
		u.started = true
		go u.run()
	}
}

// done says whether all was sent. A backend that has read it all may answer before we know it.
func (u *upload) done() bool {
	if !u.started {
		return false
	}
	select {
	case <-u.finished:
		return u.complete
	default:
	}
	patience := time.NewTimer(nearlySent)
	defer patience.Stop()
	select {
	case <-u.finished:
		return u.complete
	case <-patience.C:
		return false
	}
}

func (u *upload) run() {
	defer close(u.finished)
	buffer, _ := pieces.Get().(*piece)
	defer pieces.Put(buffer)
	for {
		n, err := u.request.Body.Read(u.window(buffer))
		if n > 0 {
			if _, failed := u.conn.Write(u.frame(buffer, n)); failed != nil {
				return // the reader sees what the backend has to say
			}
		}
		switch {
		case u.left == 0, u.left < 0 && errors.Is(err, io.EOF):
			u.end()

			return
		case err != nil:
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			u.exchange.abort(&Error{BodyBroken, err}) // what was sent must not look complete

			return
		}
	}
}

// end ends a body of which all was read.
func (u *upload) end() {
	if u.request.Length < 0 {
		last, err := appendTrailer([]byte("0\r\n"), u.request.Trailer)
		if err != nil {
			u.exchange.abort(&Error{Unfit, err})

			return
		}
		if _, err := u.conn.Write(last); err != nil {
			return
		}
	}
	u.complete = true
	u.exchange.watcher.Sent()
}

// piece is the memory for one piece of a body and what frames it.
type piece [32 << 10]byte

var pieces = sync.Pool{New: func() any { return new(piece) }}

// window is where the next piece is read to.
func (u *upload) window(buffer *piece) []byte {
	if u.request.Length < 0 {
		return buffer[chunkRoom : len(buffer)-len("\r\n")]
	}
	if u.left < int64(len(buffer)) {
		return buffer[:u.left]
	}

	return buffer[:]
}

// frame returns what is to be written for n bytes in the window.
func (u *upload) frame(buffer *piece, n int) []byte {
	if u.request.Length >= 0 {
		u.left -= int64(n)

		return buffer[:n]
	}
	var room [chunkRoom]byte
	line := append(strconv.AppendInt(room[:0], int64(n), 16), "\r\n"...)
	begin := chunkRoom - len(line)
	copy(buffer[begin:], line)
	end := chunkRoom + n
	copy(buffer[end:], "\r\n")

	return buffer[begin : end+len("\r\n")]
}

// appendTrailer writes what follows a chunked body.
func appendTrailer(to []byte, trailer http.Header) ([]byte, error) {
	for name, values := range trailer {
		for _, value := range values {
			if err := fitField(name, value); err != nil {
				return to, err
			}
			to = appendField(to, name, value)
		}
	}

	return append(to, "\r\n"...), nil
}
