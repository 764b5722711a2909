package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// call is a request as a client means it, whatever protocol carries it.
type call struct {
	method, target string
	header         [][2]string
	body           string
	chunked        bool // of a length that is not announced
	trailer        [][2]string
}

// reply is what a client got, read from the bytes themselves.
type reply struct {
	Interim []string // heads of 1xx answers
	Status  int      // 0: none
	Header  http.Header
	Body    string
	Trailer http.Header
	Broken  bool // by a reset, or an end where none may be
}

// asker is a client that uses one connection for as long as it can.
type asker interface {
	ask(c call) reply
}

// asker returns a client of r.
func (r *rig) asker(t *testing.T, h2 bool) asker {
	t.Helper()
	if h2 {
		return &asker2{t: t, dial: r.dial}
	}

	return &asker1{t: t, dial: r.dial}
}

func protocolName(h2 bool) string {
	if h2 {
		return "h2"
	}

	return "h1"
}

func (r *rig) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.front)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(conn) })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}

	return conn
}

// asker1 speaks HTTP/1.1.
type asker1 struct {
	t      *testing.T
	dial   func(*testing.T) net.Conn
	conn   net.Conn
	reader *bufio.Reader
}

func (c call) http1() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: models.example\r\n", c.method, c.target)
	for _, field := range c.header {
		fmt.Fprintf(&text, "%s: %s\r\n", field[0], field[1])
	}
	switch {
	case c.chunked:
		for _, field := range c.trailer {
			fmt.Fprintf(&text, "Trailer: %s\r\n", field[0])
		}
		text.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		if c.body != "" {
			fmt.Fprintf(&text, "%x\r\n%s\r\n", len(c.body), c.body)
		}
		text.WriteString("0\r\n")
		for _, field := range c.trailer {
			fmt.Fprintf(&text, "%s: %s\r\n", field[0], field[1])
		}
		text.WriteString("\r\n")
	case c.body != "":
		fmt.Fprintf(&text, "Content-Length: %d\r\n\r\n%s", len(c.body), c.body)
	default:
		text.WriteString("\r\n")
	}

	return text.String()
}

func (a *asker1) ask(c call) reply {
	if a.conn == nil {
		a.conn = a.dial(a.t)
		a.reader = bufio.NewReader(a.conn)
	}
	_, _ = io.WriteString(a.conn, c.http1()) // an error shows when the answer is read
	got, keep := readReply(a.reader, c.method)
	if !keep {
		shut(a.conn)
		a.conn = nil
	}

	return got
}

// readReply reads one answer to a request of the method, with the interim answers before it.
func readReply(reader *bufio.Reader, method string) (got reply, keep bool) {
	for {
		res, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil {
			got.Broken = true

			return got, false
		}
		if res.StatusCode < 200 && res.StatusCode != http.StatusSwitchingProtocols {
			got.Interim = append(got.Interim, fmt.Sprint(res.StatusCode, res.Header))

			continue
		}
		body, err := io.ReadAll(res.Body)
		got.Status, got.Header, got.Body, got.Trailer, got.Broken = res.StatusCode, res.Header, string(body), res.Trailer, err != nil

		return got, err == nil && !res.Close && res.StatusCode != http.StatusSwitchingProtocols
	}
}

// asker2 speaks HTTP/2, and sends what it is told to, however wrong.
type asker2 struct {
	t      *testing.T
	dial   func(*testing.T) net.Conn
	conn   net.Conn
	framer *http2.Framer
	stream uint32
	packed bytes.Buffer
	packer *hpack.Encoder
}

func (a *asker2) connect() {
	a.conn = a.dial(a.t)
	a.framer = http2.NewFramer(a.conn, a.conn)
	a.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	a.framer.MaxHeaderListSize = 1 << 20
	a.packed.Reset()
	a.packer = hpack.NewEncoder(&a.packed)
	a.stream = 0
	_, _ = io.WriteString(a.conn, http2.ClientPreface)
	_ = a.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24})
	_ = a.framer.WriteWindowUpdate(0, 1<<24)
}

// send begins a stream, of which end says that it has no body, and returns its number. Errors show when the answer is read.
func (a *asker2) send(fields [][2]string, end bool) uint32 {
	if a.conn == nil {
		a.connect()
	}
	if a.stream == 0 {
		a.stream = 1
	} else {
		a.stream += 2
	}
	_ = a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: a.stream, BlockFragment: a.pack(fields), EndHeaders: true, EndStream: end})

	return a.stream
}

func (a *asker2) pack(fields [][2]string) []byte {
	a.packed.Reset()
	for _, field := range fields {
		_ = a.packer.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}

	return a.packed.Bytes()
}

func (a *asker2) ask(c call) reply {
	fields := [][2]string{{":method", c.method}, {":scheme", "http"}, {":authority", "models.example"}, {":path", c.target}}
	for _, field := range c.header {
		fields = append(fields, [2]string{strings.ToLower(field[0]), field[1]})
	}
	if c.body != "" && !c.chunked {
		fields = append(fields, [2]string{"content-length", fmt.Sprint(len(c.body))})
	}
	for _, field := range c.trailer {
		fields = append(fields, [2]string{"trailer", strings.ToLower(field[0])})
	}

	return a.exchange(fields, c.body, c.trailer)
}

// exchange sends a whole request and reads what it brings.
func (a *asker2) exchange(fields [][2]string, body string, trailer [][2]string) reply {
	stream := a.send(fields, body == "" && trailer == nil)
	if body != "" {
		_ = a.framer.WriteData(stream, trailer == nil, []byte(body))
	}
	if trailer != nil {
		lower := make([][2]string, len(trailer))
		for i, field := range trailer {
			lower[i] = [2]string{strings.ToLower(field[0]), field[1]}
		}
		_ = a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: a.pack(lower), EndHeaders: true, EndStream: true})
	}

	return a.read(stream)
}

// read reads the answer on stream. The connection is given up when it broke.
func (a *asker2) read(stream uint32) reply {
	var got reply
	for {
		frame, err := a.framer.ReadFrame()
		if err != nil {
			shut(a.conn)
			a.conn, got.Broken = nil, true

			return got
		}
		if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
			_ = a.framer.WriteSettingsAck()
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok && (away.ErrCode != http2.ErrCodeNo || away.LastStreamID < stream) {
			shut(a.conn)
			a.conn, got.Broken = nil, true

			return got
		}
		if frame.Header().StreamID != stream {
			continue
		}
		if got.take(frame) {
			return got
		}
	}
}

// take takes a frame of the answer and says whether it was the last.
func (got *reply) take(frame http2.Frame) (ended bool) {
	switch frame := frame.(type) {
	case *http2.RSTStreamFrame:
		got.Broken = true

		return true
	case *http2.DataFrame:
		got.Body += string(frame.Data())

		return frame.StreamEnded()
	case *http2.MetaHeadersFrame:
		header := http.Header{}
		for _, field := range frame.RegularFields() {
			header.Add(field.Name, field.Value)
		}
		status := 0
		_, _ = fmt.Sscan(frame.PseudoValue("status"), &status)
		switch {
		case status == 0:
			got.Trailer = header
		case status < 200:
			got.Interim = append(got.Interim, fmt.Sprint(status, header))
		default:
			got.Status, got.Header = status, header
		}

		return frame.StreamEnded()
	}

	return false
}
