package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// recorder is a backend that reads bytes, not requests: more strictly than any server does, so that what it takes without a fault every server reads alike.
type recorder struct {
	listener net.Listener
	script   script
	conns    sync.WaitGroup

	mu   sync.Mutex
	seen []received
	open map[net.Conn]struct{}
}

// script answers a request that the recorder has read. It returns false when the connection is to be closed.
type script func(conn net.Conn, request received) (keep bool)

// received is one request as it arrived. One with a fault is no request: it is cut short, or written so that servers may differ in how they read it.
type received struct {
	method, target string
	header         []string // lines, with names in lower case
	body           string
	chunked        bool
	trailer        []string
	fault          error
}

// String is what tables compare: what was asked for, and with what body.
func (r received) String() string {
	return strings.TrimRight(r.method+" "+r.target+" "+r.body, " ")
}

func (r received) get(name string) string {
	for _, line := range r.header {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return value
		}
	}

	return ""
}

// own is the answer that belongs to one request and to no other.
func own(conn net.Conn, request received) bool {
	text := "own " + request.target
	if request.method == http.MethodHead {
		text = ""
	}
	_, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len("own "+request.target), text)

	return err == nil
}

// record starts a recorder on a port of its own.
func record(t *testing.T, script script) *recorder {
	t.Helper()
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	r := recordOn(listener, script)
	t.Cleanup(func() {
		shut(listener)
		r.hangUp() // where a test has failed a proxy may hold a connection for as long as it likes
		r.conns.Wait()
	})

	return r
}

func recordOn(listener net.Listener, script script) *recorder {
	r := &recorder{listener: listener, script: script, open: map[net.Conn]struct{}{}}
	r.conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.open[conn] = struct{}{}
			r.mu.Unlock()
			r.conns.Go(func() { r.serve(conn) })
		}
	})

	return r
}

// hangUp closes every connection.
func (r *recorder) hangUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.open {
		shut(conn)
	}
}

func (r *recorder) address() units.Address { return tcp(r.listener.Addr().String()) }

func (r *recorder) serve(conn net.Conn) {
	defer func() {
		shut(conn)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, conn)
	}()
	reader := bufio.NewReader(conn)
	for {
		request, err := readStrictly(conn, reader)
		if errors.Is(err, io.EOF) {
			return // between two requests
		}
		if strings.HasPrefix(request.get("user-agent"), "pilotlight/") {
			return // a test of another package beside us asks for a backend that once had this port
		}
		request.fault = err
		r.mu.Lock()
		r.seen = append(r.seen, request)
		r.mu.Unlock()
		if err != nil || !r.script(conn, request) {
			return
		}
	}
}

// dials counts the connections to a recorder.
type dials struct{ n atomic.Int64 }

func (d *dials) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.n.Add(1)

	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// requests returns what has arrived, faults included, and forgets it.
func (r *recorder) requests() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen
	r.seen = nil

	return seen
}

// finish ends a rig's connections to the recorder, and returns everything that ever arrived on them.
func (r *recorder) finish(t *testing.T, h *Handler) []received {
	t.Helper()
	shut(r.listener)
	ended := make(chan struct{})
	go func() { r.conns.Wait(); close(ended) }()
	defer func() { r.hangUp(); <-ended }()
	for limit := time.After(5 * time.Second); ; {
		h.Close()
		select {
		case <-ended:
			return r.requests()
		case <-limit:
			t.Fatal("the proxy holds on to a connection although its exchange has ended")
		case <-time.After(time.Millisecond):
		}
	}
}

var (
	errCutShort = errors.New("cut short")

	requestLine = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP/1\\.1\r\n$")
	headerLine  = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([^\x00-\x08\x0a-\x1f\x7f]*)\r\n$")
	hostPort    = regexp.MustCompile(`^([0-9A-Za-z._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?$`)
)

// readStrictly reads one request, and says io.EOF where there is none.
func readStrictly(conn io.Writer, reader *bufio.Reader) (received, error) {
	var r received
	line, err := reader.ReadString('\n')
	if err != nil {
		if line == "" {
			return r, io.EOF
		}

		return r, errCutShort
	}
	parts := requestLine.FindStringSubmatch(line)
	if parts == nil {
		return r, fmt.Errorf("request line %q", line)
	}
	r.method, r.target = parts[1], parts[2]
	if r.header, err = readLines(reader); err != nil {
		return r, err
	}
	length := -1
	for _, line := range r.header {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "content-length":
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil || length >= 0 || r.chunked {
				return r, fmt.Errorf("framing %q", r.header)
			}
			length = int(n)
		case "transfer-encoding":
			if value != "chunked" || length >= 0 || r.chunked {
				return r, fmt.Errorf("framing %q", r.header)
			}
			r.chunked = true
		case "host":
			if !hostPort.MatchString(value) {
				return r, fmt.Errorf("host %q", value)
			}
		}
	}
	if hosts := slices.DeleteFunc(slices.Clone(r.header), func(line string) bool { return !strings.HasPrefix(line, "host: ") }); len(hosts) != 1 {
		return r, fmt.Errorf("hosts %q", hosts)
	}
	if r.get("expect") != "" {
		_, _ = io.WriteString(conn, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	if r.chunked {
		r.body, r.trailer, err = readChunks(reader)
	} else if length > 0 {
		var body strings.Builder // not made at once: any length may be announced
		if _, err = io.CopyN(&body, reader, int64(length)); err != nil {
			err = errCutShort
		}
		r.body = body.String()
	}

	return r, err
}

// readLines reads header or trailer lines and the empty line after them.
func readLines(reader *bufio.Reader) ([]string, error) {
	var lines []string
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return lines, errCutShort
		}
		if line == "\r\n" {
			return lines, nil
		}
		parts := headerLine.FindStringSubmatch(line)
		if parts == nil {
			return lines, fmt.Errorf("header line %q", line)
		}
		lines = append(lines, strings.ToLower(parts[1])+": "+parts[2])
	}
}

var chunkLine = regexp.MustCompile("^[0-9a-fA-F]{1,7}\r\n$")

func readChunks(reader *bufio.Reader) (body string, trailer []string, err error) {
	var read strings.Builder
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return read.String(), nil, errCutShort
		}
		if !chunkLine.MatchString(line) {
			return read.String(), nil, fmt.Errorf("chunk size %q", line)
		}
		size, _ := strconv.ParseInt(strings.TrimSpace(line), 16, 64)
		if size == 0 {
			trailer, err = readLines(reader)

			return read.String(), trailer, err
		}
		if _, err := io.CopyN(&read, reader, size); err != nil {
			return read.String(), nil, errCutShort
		}
		var end [len("\r\n")]byte
		if _, err := io.ReadFull(reader, end[:]); err != nil {
			return read.String(), nil, errCutShort
		}
		if string(end[:]) != "\r\n" {
			return read.String(), nil, fmt.Errorf("end of a chunk %q", end[:])
		}
	}
}
