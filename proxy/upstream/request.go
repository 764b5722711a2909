package upstream

import (
	"io"
	"net/http"
)

// Request is a request as it goes to the backend. Nothing is added to it but what frames it, and nothing is changed.
type Request struct {
	Method string
	// Target is the request target, byte for byte: a path with its query, or *.
	Target string
	Host   string
	// Header is sent but for what belongs to one hop: Connection and what it names, Keep-Alive, Proxy-*, TE other than trailers, Trailer, Transfer-Encoding and Upgrade.
	// Content-Length, Expect and Host come from the fields here. It is only read.
	Header http.Header
	// Fields are sent as well, each in place of all of its name in Header. One with an empty value only takes those away.
	Fields []Field
	// Upgrade is the protocol to which the connection is to be switched; empty: none. Such a request has no body.
	Upgrade string
	// Body is nil when there is none. It is read by another goroutine if it is not small, which may go on until its Read returns even after the exchange has been closed.
	Body io.Reader
	// Ready says that some of Body is there, so that to read it is not to wait. A small body that is ready goes with the head in one write.
	Ready bool
	// Length is that of Body in bytes; below 0: not known.
	Length int64
	// Trailer has the names of what follows a body of unknown length, and once that was read the values.
	Trailer http.Header
	// Expect says that the body is to be sent only once the backend asks for it, or says nothing for a second.
	Expect bool
}

// Field is one header field.
type Field struct{ Name, Value string }

// Watcher is told how an exchange goes on.
type Watcher interface {
	// Dialed is called for each new connection before anything is written to it. An error ends the exchange.
	Dialed() error
	// Sent is called, possibly by another goroutine and more than once, when all of the request has been written.
	Sent()
	// Interim is called with each answer that comes before the answer, other than 100. It may keep the header.
	Interim(status int, header http.Header)
}
