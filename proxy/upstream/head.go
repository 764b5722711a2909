package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// appendHead writes the head of r behind to. It refuses what would read differently at the other end: HTTP/2 lets bytes through that end a line of HTTP/1, and an
// *http.Request may hold anything.
func appendHead(to []byte, r *Request) ([]byte, error) {
	if err := fit(r); err != nil {
		return to, err
	}
	to = append(append(append(to, r.Method...), ' '), r.Target...)
	to = append(to, " HTTP/1.1\r\n"...)
	to = appendField(to, "Host", r.Host)
	to = appendFraming(to, r)
	to, err := appendHeader(to, r)
	if err != nil {
		return to, err
	}
	for _, field := range r.Fields {
		if err := fitField(field.Name, field.Value); err != nil {
			return to, err
		}
		if field.Value != "" {
			to = appendField(to, field.Name, field.Value)
		}
	}

	return append(to, "\r\n"...), nil
}

// appendFraming says how long the body is and what becomes of the connection.
func appendFraming(to []byte, r *Request) []byte {
	switch {
	case r.Upgrade != "":
		to = appendField(to, "Connection", "Upgrade")
		to = appendField(to, "Upgrade", r.Upgrade)
	case r.Body == nil:
		if r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
			to = appendField(to, "Content-Length", "0") // some servers ask such requests for one
		}
	case r.Length >= 0:
		to = append(to, "Content-Length: "...)
		to = strconv.AppendInt(to, r.Length, 10)
		to = append(to, "\r\n"...)
	default:
		to = appendField(to, "Transfer-Encoding", "chunked")
		for name := range r.Trailer {
			to = appendField(to, "Trailer", name)
		}
	}
	if r.Expect {
		to = appendField(to, "Expect", "100-continue")
	}

	return to
}

// appendHeader writes the header in the order of its names.
func appendHeader(to []byte, r *Request) ([]byte, error) {
	var room [32]string
	names := room[:0]
	for name := range r.Header {
		if !r.leaves(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range r.Header[name] {
			if err := fitField(name, value); err != nil {
				return to, err
			}
			to = appendField(to, name, value)
		}
	}
	if te := r.Header["Te"]; len(te) > 0 && httpguts.HeaderValuesContainsToken(te, "trailers") {
		to = appendField(to, "Te", "trailers")
	}

	return to, nil
}

// leaves says whether the fields of that name do not go on to the backend, or not from the header.
func (r *Request) leaves(name string) bool {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch canonical {
	case "Http2-Settings", "Content-Length", "Expect", "Host":
		return true
	}
	for _, field := range r.Fields {
		if field.Name == canonical {
			return true
		}
	}

	return ofOneHop(canonical) || httpguts.HeaderValuesContainsToken(r.Header["Connection"], canonical)
}

// ofOneHop says whether the header, by its canonical name, is for one hop whatever Connection says.
func ofOneHop(canonical string) bool {
	switch canonical {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	default:
		return false
	}
}

func appendField(to []byte, name, value string) []byte {
	to = append(append(to, name...), ": "...)

	return append(append(to, value...), "\r\n"...)
}

// fit says what is wrong with the request line, or with what frames the body.
func fit(r *Request) error {
	if !httpguts.ValidHeaderFieldName(r.Method) {
		return fmt.Errorf("write request: method: expected a token, got %q", r.Method)
	}
	if r.Target == "" {
		return errors.New("write request: target: expected a path, got nothing")
	}
	for i := range len(r.Target) {
		if c := r.Target[i]; c <= ' ' || c > '~' {
			return fmt.Errorf("write request: target: expected visible ASCII, got byte %#02x at %d", c, i)
		}
	}
	for i := range len(r.Host) {
		if !hostByte(r.Host[i]) {
			return fmt.Errorf("write request: host: expected host[:port], got %q", r.Host)
		}
	}
	if r.Upgrade != "" && (r.Body != nil || !httpguts.ValidHeaderFieldValue(r.Upgrade)) {
		return fmt.Errorf("write request: upgrade to %q: expected a protocol and no body", r.Upgrade)
	}
	for name := range r.Trailer {
		if !httpguts.ValidTrailerHeader(name) {
			return fmt.Errorf("write request: trailer %q: it may not come after a body", name)
		}
	}

	return nil
}

func fitField(name, value string) error {
	if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("write request: header %q: its name or value holds bytes that it may not", name)
	}

	return nil
}

// hostByte says whether c may stand in a Host header: host[:port] and nothing that ends, begins or divides anything.
func hostByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	default:
		return strings.IndexByte("-._~:[]%!$&'()*+,;=", c) >= 0
	}
}
