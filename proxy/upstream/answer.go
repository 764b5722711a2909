package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// maxHead bounds the head of an answer, with those of all that came before it, in bytes.
	maxHead = 256 << 10
	// continueAfter is how long a backend may take to ask for a body that is announced by Expect.
	continueAfter = time.Second
)

// Answer is the head of an answer.
type Answer struct {
	Status int
	// Length is that of the body in bytes; below 0: not known.
	Length int64
	// Trailers are the names of what will follow the body, as far as they are announced.
	Trailers []string

	body      body
	silent    bool          // not one byte of an answer came
	closed    bool          // the backend ended its side in order
	reusable  bool          // the connection may serve another exchange once the body has ended
	keepAlive time.Duration // for how long the backend keeps an unused connection; 0: it does not say
	headBytes int           // of all heads read so far
}

// readAnswer reads heads until that of the answer.
func (e *Exchange) readAnswer() error {
	if err := e.awaitContinue(); err != nil {
		return e.noAnswer(err)
	}
	for {
		head, err := e.readHead()
		if err != nil {
			return err
		}
		m := message{header: e.into}
		if err := m.parse(head); err != nil {
			return &Error{Malformed, fmt.Errorf("read answer: %w", err)}
		}
		if !m.interim {
			return e.accept(&m)
		}
		e.interim(&m)
	}
}

// interim deals with an answer before the answer. That the backend wants the body is between it and us: the client is asked for its body when we read it.
func (e *Exchange) interim(m *message) {
	if m.status != http.StatusContinue {
		e.watcher.Interim(m.status, m.header)
	} else if e.upload != nil {
		e.upload.start()
	}
}

// awaitContinue waits a while for a word about a body that was announced.
func (e *Exchange) awaitContinue() error {
	if e.upload == nil || e.upload.started {
		return nil
	}
	c := e.conn
	_ = c.SetReadDeadline(time.Now().Add(continueAfter))
	_, err := c.r.Peek(1)
	_ = c.SetReadDeadline(time.Time{})
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		e.upload.start()

		return nil
	}

	return err
}

// noAnswer is the error for an answer that did not come, or not whole.
func (e *Exchange) noAnswer(err error) error {
	e.closed = errors.Is(err, io.EOF)

	return &Error{Broken, fmt.Errorf("read answer: %w", err)}
}

// readHead reads one head, without the empty line that ends it.
func (e *Exchange) readHead() (string, error) {
	buffer := getBuffer()
	defer putBuffer(buffer)
	r := e.conn.r
	for {
		line, err := r.ReadSlice('\n')
		e.silent = e.silent && len(line) == 0
		e.headBytes += len(line)
		*buffer = append(*buffer, line...)
		switch {
		case e.headBytes > maxHead:
			return "", &Error{Malformed, fmt.Errorf("read answer: expected at most %d bytes of headers, got more", maxHead)}
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return "", e.noAnswer(err)
		}
		// A line that was longer than the buffer ends like any other.
		if head := *buffer; endsEmpty(head) {
			if len(head) < len("HTTP/1.1 200") {
				return "", &Error{Malformed, fmt.Errorf("read answer: expected a status line, got %q", head)}
			}

			return string(head), nil
		}
	}
}

// endsEmpty says whether head ends with an empty line.
func endsEmpty(head []byte) bool {
	n := len(head)
	switch {
	case n >= 2 && head[n-2] == '\n', n >= 3 && head[n-2] == '\r' && head[n-3] == '\n':
		return true
	default:
		return n == 1 || (n == 2 && head[0] == '\r') // nothing else came
	}
}

// accept takes m for the answer.
func (e *Exchange) accept(m *message) error {
	e.forget()
	switched := m.status == http.StatusSwitchingProtocols
	if switched && (e.request.Upgrade == "" || !m.upgrade) {
		return &Error{Malformed, errors.New("read answer: it switches to another protocol, which nobody asked for")}
	}
	bodiless := switched || e.request.Method == http.MethodHead || m.status == http.StatusNoContent || m.status == http.StatusNotModified
	e.Status, e.Length, e.keepAlive = m.status, m.length, m.keepAlive
	e.reusable = !m.close && !m.both && !switched && (m.minor == 1 || m.keep)
	switch {
	case bodiless:
		if m.status == http.StatusNoContent && (m.chunked || m.length > 0) {
			e.reusable = false
		}
		if !switched {
			e.finish()
		}
	case m.chunked:
		e.Length, e.Trailers = -1, m.trailers
		e.body.chunks(e.conn.r)
	case m.length >= 0:
		e.body.left = m.length
		if m.length == 0 {
			e.finish()
		}
	default:
		e.reusable = false
		e.body.untilEnd = true
	}

	return nil
}
