package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// maxHead bounds the head of a message, in bytes.
const maxHead = 16 << 10

// askHeader tells the origin what to answer.
const askHeader = "Bench-Ask"

// message reads HTTP/1.1 messages off a connection piece by piece, and keeps no more of them than the head. It is as lean as a participant must be
// that is not to be measured itself: it allocates nothing once its head has grown, and knows only bodies with a length or in chunks.
type message struct {
	// request says that messages are requests: without a length they have no body.
	request bool
	// body, if set, gets what was read of the body, in pieces.
	body func(piece []byte)

	state  part
	head   []byte
	line   []byte // of the size of a chunk, or of the trailers
	left   int64  // of the body or of the chunk
	status int
	ask    []byte
}

// part is what comes next on the connection.
type part int

const (
	inHead part = iota
	inBody
	inChunkSize
	inChunk
	inChunkEnd
	inTrailer
	whole
)

var (
	errHead  = fmt.Errorf("the head exceeds %d bytes", maxHead)
	errFrame = errors.New("neither a length nor chunks tell where the answer ends")
)

// reset makes ready for the next message on the connection.
func (m *message) reset() {
	m.state, m.head, m.line, m.left, m.status, m.ask = inHead, m.head[:0], m.line[:0], 0, 0, nil
}

// feed takes bytes of the connection. It returns those that belong to the next message, and whether this one is whole.
func (m *message) feed(b []byte) (rest []byte, done bool, err error) {
	for {
		if m.state == whole {
			return b, true, nil
		}
		if len(b) == 0 {
			return nil, false, nil
		}
		switch m.state {
		case inHead:
			b, err = m.readHead(b)
		case inBody, inChunk:
			b = m.readBody(b)
		case inChunkSize, inChunkEnd, inTrailer:
			b, err = m.readLine(b)
		case whole: // as above
		}
		if err != nil {
			return nil, false, err
		}
	}
}

func (m *message) readHead(b []byte) (rest []byte, err error) {
	before := len(m.head)
	m.head = append(m.head, b[:min(len(b), maxHead-before)]...)
	from := max(0, before-3)
	found := bytes.Index(m.head[from:], []byte("\r\n\r\n"))
	if found < 0 {
		if len(m.head) == maxHead {
			return nil, errHead
		}

		return nil, nil
	}
	end := from + found + 4
	m.head = m.head[:end]
	rest = b[end-before:]

	return rest, m.understand()
}

// understand reads the whole head.
func (m *message) understand() error {
	first, fields, _ := bytes.Cut(m.head, []byte("\r\n"))
	if !m.request {
		status, err := readStatus(first)
		if err != nil {
			return err
		}
		m.status = status
		if status < 200 {
			m.head = m.head[:0] // an interim answer: the real one follows

			return nil
		}
	}
	length, chunked, err := m.readFields(fields)
	if err != nil {
		return err
	}
	empty := m.status == 204 || m.status == 304
	switch {
	case chunked:
		m.state = inChunkSize
	case length > 0 && !empty:
		m.state, m.left = inBody, length
	case length == 0 || m.request || empty:
		m.state = whole
	default:
		return errFrame
	}

	return nil
}

// readFields returns the length that the fields tell, -1 without one.
func (m *message) readFields(fields []byte) (length int64, chunked bool, err error) {
	length = -1
	for len(fields) > 0 {
		var line []byte
		line, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err != nil || length < 0 {
				return 0, false, fmt.Errorf("content-length: expected a number of bytes, got %q", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
		case m.request && bytes.EqualFold(name, []byte(askHeader)):
			m.ask = bytes.TrimSpace(value)
		}
	}

	return length, chunked, nil
}

func (m *message) readBody(b []byte) (rest []byte) {
	n := min(int64(len(b)), m.left)
	if m.body != nil {
		m.body(b[:n])
	}
	m.left -= n
	if m.left == 0 {
		m.state++
		if m.state == inChunkSize { // the end of a body with a length
			m.state = whole
		}
	}

	return b[n:]
}

// readLine reads the lines around chunks.
func (m *message) readLine(b []byte) (rest []byte, err error) {
	line, rest, ended := bytes.Cut(b, []byte("\n"))
	if m.line = append(m.line, line...); len(m.line) > maxHead {
		return nil, errHead
	}
	if !ended {
		return nil, nil
	}
	text := bytes.TrimRight(m.line, "\r")
	m.line = m.line[:0]
	switch m.state { //nolint:exhaustive // the rest has no lines
	case inChunkSize:
		size, _, _ := bytes.Cut(text, []byte(";"))
		if m.left, err = strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 64); err != nil || m.left < 0 {
			return nil, fmt.Errorf("size of a chunk: expected a hexadecimal number, got %q", size)
		}
		m.state = inChunk
		if m.left == 0 {
			m.state = inTrailer
		}
	case inChunkEnd:
		m.state = inChunkSize
		if len(text) > 0 {
			return nil, fmt.Errorf("end of a chunk: expected an end of line, got %q", text)
		}
	default:
		if len(text) == 0 {
			m.state = whole
		}
	}

	return rest, nil
}

// target is the path of a request.
func (m *message) target() []byte {
	_, after, _ := bytes.Cut(m.head, []byte(" "))
	path, _, _ := bytes.Cut(after, []byte(" "))

	return path
}

// readStatus reads the first line of an answer.
func readStatus(line []byte) (int, error) {
	if len(line) >= 12 && bytes.HasPrefix(line, []byte("HTTP/1.")) {
		if status, err := strconv.Atoi(string(line[9:12])); err == nil {
			return status, nil
		}
	}

	return 0, fmt.Errorf("first line of an answer: expected HTTP/1.1 and a status, got %q", line)
}
