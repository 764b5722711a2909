package upstream

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// message is the head of one answer, read strictly: what could be understood in two ways is refused, so that nobody behind us understands it in the other.
type message struct {
	status   int
	minor    int         // of HTTP/1
	interim  bool        // it comes before the answer
	header   http.Header // what goes on to the client, once parse has returned
	trailers []string    // names of what follows the body, as announced
	length   int64       // -1: not said
	chunked  bool
	both     bool // a length and chunks: one of them is wrong
	upgrade  bool // it names a protocol
	close    bool
	keep     bool
	// keepAlive is for how long the backend keeps an unused connection; 0: it does not say.
	keepAlive time.Duration
}

// parse reads a head with the empty line that ends it. Lines may end without a carriage return, as those of some servers do.
func (m *message) parse(head string) error {
	line, rest := cutLine(head)
	if err := m.parseStatus(line); err != nil {
		return err
	}
	m.length = -1
	m.interim = m.status < http.StatusOK && m.status != http.StatusSwitchingProtocols
	if m.interim {
		m.header = http.Header{}
	}
	values := make([]string, strings.Count(rest, "\n")) // one piece of memory for all
	for {
		if line, rest = cutLine(rest); line == "" {
			return m.frame()
		}
		name, value, err := parseField(line)
		if err != nil {
			return err
		}
		if before, ok := m.header[name]; ok {
			m.header[name] = append(before, value)
		} else {
			values[0] = value
			m.header[name], values = values[:1:1], values[1:]
		}
	}
}

// parseStatus reads a status line.
func (m *message) parseStatus(line string) error {
	version, rest, ok := strings.Cut(line, " ")
	status, reason, _ := strings.Cut(rest, " ")
	switch version {
	case "HTTP/1.1":
		m.minor = 1
	case "HTTP/1.0":
	default:
		ok = false
	}
	var err error
	if m.status, err = strconv.Atoi(status); !ok || err != nil || len(status) != 3 || m.status < 100 || !httpguts.ValidHeaderFieldValue(reason) {
		return fmt.Errorf("expected a status line of HTTP/1, got %.80q", line)
	}

	return nil
}

// parseField reads a header line. The name comes in canonical form.
func parseField(line string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, ":")
	value = strings.Trim(value, " \t")
	if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return "", "", fmt.Errorf("expected a header line, got %.80q", line)
	}

	return textproto.CanonicalMIMEHeaderKey(name), value, nil
}

// frame finds out how long the body is and what becomes of the connection, and takes away what is for this hop only.
func (m *message) frame() error {
	if err := m.frameBody(); err != nil {
		return err
	}
	connection := m.header["Connection"]
	m.close = httpguts.HeaderValuesContainsToken(connection, "close")
	m.keep = httpguts.HeaderValuesContainsToken(connection, "keep-alive")
	m.upgrade = m.header["Upgrade"] != nil && httpguts.HeaderValuesContainsToken(connection, "upgrade")
	m.keepAlive = parseKeepAlive(m.header["Keep-Alive"])
	for _, names := range m.header["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			if name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)); httpguts.ValidTrailerHeader(name) {
				m.trailers = append(m.trailers, name)
			}
		}
	}
	if m.status == http.StatusSwitchingProtocols {
		return nil // all of it is for the client
	}
	for name := range m.header {
		if ofOneHop(name) || httpguts.HeaderValuesContainsToken(connection, name) {
			delete(m.header, name)
		}
	}

	return nil
}

// frameBody finds out how long the body is.
func (m *message) frameBody() error {
	lengths, encodings := m.header["Content-Length"], m.header["Transfer-Encoding"]
	for i, value := range lengths {
		length, err := strconv.ParseUint(value, 10, 63)
		if err != nil || value[0] == '+' {
			return fmt.Errorf("Content-Length: expected a number of bytes, got %.80q", value)
		}
		if i > 0 && int64(length) != m.length {
			return fmt.Errorf("Content-Length: expected one number, got %d and %d", m.length, length)
		}
		m.length = int64(length)
	}
	if len(lengths) > 1 {
		m.header["Content-Length"] = lengths[:1]
	}
	switch {
	case len(encodings) == 0:
		return nil
	case len(encodings) > 1, m.minor == 0, !strings.EqualFold(encodings[0], "chunked"):
		return fmt.Errorf("Transfer-Encoding: expected chunked, once, in HTTP/1.1, got %.80q", encodings)
	}
	m.chunked, m.both, m.length = true, len(lengths) > 0, -1
	delete(m.header, "Content-Length")

	return nil
}

// parseKeepAlive reads timeout=5, in seconds, and leaves the backend half a second for what is under way when it closes.
func parseKeepAlive(values []string) time.Duration {
	for _, value := range values {
		for parameter := range strings.SplitSeq(value, ",") {
			name, seconds, _ := strings.Cut(textproto.TrimString(parameter), "=")
			if n, err := strconv.ParseUint(seconds, 10, 16); err == nil && strings.EqualFold(name, "timeout") {
				return max(time.Millisecond, time.Duration(n)*time.Second-time.Second/2)
			}
		}
	}

	return 0
}

// cutLine returns the first line of text, without what ends it, and the rest.
func cutLine(text string) (line, rest string) {
	line, rest, _ = strings.Cut(text, "\n")

	return strings.TrimSuffix(line, "\r"), rest
}
