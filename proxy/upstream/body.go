package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"

	"golang.org/x/net/http/httpguts"
)

// maxTrailer bounds what follows a chunked body, in bytes.
const maxTrailer = 64 << 10

// body says how the body of an answer ends. The zero body has none.
type body struct {
	left     int64     // bytes to come
	chunked  io.Reader // not nil: it comes in chunks
	untilEnd bool      // it ends with the connection
	trailer  http.Header
	err      error // what every further Read says
}

// chunks makes the body one that comes in chunks.
func (b *body) chunks(r *bufio.Reader) { b.chunked = httputil.NewChunkedReader(r) }

// Read reads the body of the answer: what has come, without waiting for more. [io.EOF] comes with the last bytes where that is possible, and the connection has gone back by then.
// An answer that breaks off is [io.ErrUnexpectedEOF] or the error of the connection, never EOF.
func (e *Exchange) Read(p []byte) (int, error) {
	b := &e.body
	if b.err != nil {
		return 0, b.err
	}
	n, err := e.readBody(p)
	if err != nil {
		b.err = err
		if errors.Is(err, io.EOF) {
			e.finish()
		}
	}

	return n, err
}

func (e *Exchange) readBody(p []byte) (int, error) {
	b := &e.body
	switch {
	case b.chunked != nil:
		n, err := b.chunked.Read(p)
		if errors.Is(err, io.EOF) {
			err = e.readTrailer()
		}

		return n, err
	case b.untilEnd:
		return e.conn.r.Read(p)
	case b.left == 0:
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := e.conn.r.Read(p)
	b.left -= int64(n)
	switch {
	case b.left == 0:
		return n, io.EOF
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	default:
		return n, err
	}
}

// Trailer returns what followed the body, once Read has returned [io.EOF].
func (e *Exchange) Trailer() http.Header { return e.body.trailer }

// readTrailer reads what follows the last chunk, and returns [io.EOF] if it is whole.
func (e *Exchange) readTrailer() error {
	buffer := getBuffer()
	defer putBuffer(buffer)
	for {
		line, err := e.conn.r.ReadSlice('\n')
		*buffer = append(*buffer, line...)
		switch {
		case len(*buffer) > maxTrailer:
			return fmt.Errorf("read trailer: expected at most %d bytes, got more", maxTrailer)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		case endsEmpty(*buffer):
			if text := *buffer; len(text) != len("\r\n") && !bytes.HasSuffix(text, []byte("\r\n\r\n")) {
				return errors.New("read trailer: expected lines that end with a carriage return and a line feed")
			}

			return e.parseTrailer(string(*buffer))
		}
	}
}

func (e *Exchange) parseTrailer(text string) error {
	for {
		var line string
		if line, text = cutLine(text); line == "" {
			return io.EOF
		}
		name, value, err := parseField(line)
		if err != nil {
			return fmt.Errorf("read trailer: %w", err)
		}
		if !httpguts.ValidTrailerHeader(name) {
			continue // it would have had a meaning before the body, and must not get it afterwards
		}
		if e.body.trailer == nil {
			e.body.trailer = http.Header{}
		}
		e.body.trailer[name] = append(e.body.trailer[name], value)
	}
}

// Splice has to read up to most of the next bytes of the body from the connection itself, so that the kernel may move them. It returns 0 and no error where that is not
// possible: the length must be known, the connection be plain TCP, and nothing read ahead. [io.EOF] comes with the last bytes, as from Read.
func (e *Exchange) Splice(to io.ReaderFrom, most int64) (int64, error) {
	b := &e.body
	if b.chunked != nil || b.untilEnd || b.left == 0 || e.conn.r.Buffered() > 0 {
		return 0, nil
	}
	tcp, ok := e.conn.Conn.(*net.TCPConn)
	if !ok {
		return 0, nil
	}
	want := min(most, b.left)
	n, err := to.ReadFrom(&io.LimitedReader{R: tcp, N: want})
	b.left -= n
	switch {
	case err != nil:
		b.err = err
	case n < want:
		b.err = io.ErrUnexpectedEOF
	case b.left == 0:
		b.err = io.EOF
		e.finish()
	}

	return n, b.err
}

// Ended says whether the body was read to its end.
func (e *Exchange) Ended() bool { return errors.Is(e.body.err, io.EOF) }

// Readable says whether the backend has sent bytes that nobody has read yet, or its end. It may be called from any goroutine.
func (e *Exchange) Readable() bool {
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.conn != nil && e.conn.readable()
}
