package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lines counts the lines of a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return strings.Count(l.text.String(), text)
}

func TestConnectionsBeyondTheLimitAreClosedAtOnce(t *testing.T) {
	t.Parallel()
	log := &lines{}
	r := socketRig(t, httpBackend(t, func(http.ResponseWriter, *http.Request) {}), func(s *Settings, _ *GateSettings) {
		s.Limits.Connections, s.Logger = 5, slog.New(slog.NewTextHandler(log, nil))
	})
	open(r.gate)
	extra := serve(t, r.handler.ServerTo(ToHTTP), r.handler.Limit) // shares the limit
	ask := func(conn net.Conn, answers *bufio.Reader) error {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			return err
		}
		res, err := http.ReadResponse(answers, nil)
		if err == nil {
			shut(res.Body)
		}

		return err
	}
	conns := make([]net.Conn, 5)
	for i := range conns {
		conn, answers := r.raw(t, "")
		if err := ask(conn, answers); err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	for range 3 {
		for _, front := range []string{r.front, extra} {
			conn, err := net.Dial("tcp", front)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("a connection too many: %v", err)
			}
			shut(conn)
		}
	}
	if got := r.handler.Connections(); got != (ConnectionsSnapshot{Open: 5, Limit: 5, Refused: 6}) {
		t.Errorf("%+v", got)
	}
	for _, conn := range conns[:2] {
		shut(conn)
	}
	until(t, "there is room", func() bool { return r.handler.Connections().Open == 3 })
	if conn, answers := r.raw(t, ""); ask(conn, answers) != nil {
		t.Error("no room for a new connection where two have ended")
	}
	if full, room := log.count("limits.connections is reached"), log.count("room for connections again"); full != 1 || room != 1 {
		t.Errorf("%d and %d lines in the log, expected one of each", full, room)
	}
}

// TestConnectionsOfTunnelsCount has a tunnel, which net/http no longer knows as a connection.
func TestConnectionsOfTunnelsCount(t *testing.T) {
	t.Parallel()
	r := socketRig(t, rawBackend(t, func(_ int, conn net.Conn, _ string, rest *bufio.Reader) {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, rest)
	}), nil)
	open(r.gate)
	conn, answers := r.raw(t, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if head, err := readHead(answers); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101") {
		t.Fatalf("%q, %v", head, err)
	}
	if n := r.handler.Connections().Open; n != 1 {
		t.Errorf("%d connections", n)
	}
	shut(conn)
	until(t, "no connection is counted", func() bool { return r.handler.Connections().Open == 0 })
}

// TestOldConnectionsEndWithAnAnswer lets connections become old, idle and in the middle of an answer.
func TestOldConnectionsEndWithAnAnswer(t *testing.T) {
	t.Parallel()
	const age = time.Hour
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		r, end := memoryRig(t, func(w http.ResponseWriter, request *http.Request) {
			if request.URL.Path == "/stream" {
				for range 3 {
					_, _ = io.WriteString(w, "piece\n")
					_ = http.NewResponseController(w).Flush()
					<-next
				}
			}
		}, func(s *Settings, _ *GateSettings) {
			s.MaxConnectionAge, s.Timeouts.StreamIdle = age, 0
		})
		defer end()
		open(r.gate)
		for i, h2 := range []bool{false, true} {
			dials := 0
			transport, _ := r.client.Transport.(*http.Transport)
			counting := transport.Clone()
			counting.DialContext = countDials(&dials, transport)
			if h2 {
				counting.Protocols = &http.Protocols{}
				counting.Protocols.SetUnencryptedHTTP2(true)
			}
			client := &http.Client{Transport: counting}
			get := func(path string) *http.Response {
				res, err := client.Get("http://front" + path)
				if err != nil {
					t.Fatal(i, err)
				}
				if path == "/" {
					_, _ = io.Copy(io.Discard, res.Body)
					shut(res.Body)
				}

				return res
			}
			get("/")
			time.Sleep(age * 8 / 10)
			if get("/"); dials != 1 {
				t.Errorf("h2 %v: %d connections before the age", h2, dials)
			}
			stream := get("/stream")
			time.Sleep(age * 4 / 10) // past every age that there can be, in the middle of an answer
			before := dials
			if !h2 {
				before++ // the stream has the first connection to itself
			}
			get("/") // on HTTP/2 the last one on the old connection
			get("/")
			if want := before + map[bool]int{false: 0, true: 1}[h2]; dials != want {
				t.Errorf("h2 %v: %d connections after the age, want %d", h2, dials, want)
			}
			go func() {
				for range 3 {
					next <- struct{}{}
				}
			}()
			text, err := io.ReadAll(stream.Body)
			if shut(stream.Body); err != nil || strings.Count(string(text), "piece") != 3 {
				t.Errorf("h2 %v: the answer that was under way: %q, %v", h2, text, err)
			}
			if !h2 {
				continue
			}
			counting.CloseIdleConnections()
		}
	})
}

// TestAnOldConnectionOfHTTP1IsClosed sees the header that says so, and the end.
func TestAnOldConnectionOfHTTP1IsClosed(t *testing.T) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, func(http.ResponseWriter, *http.Request) {}), func(s *Settings, _ *GateSettings) { s.MaxConnectionAge = time.Nanosecond })
	open(r.gate)
	_, answers := r.raw(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	res, err := http.ReadResponse(answers, nil)
	if err != nil || !res.Close || res.StatusCode != http.StatusOK {
		t.Fatalf("%+v, %v", res, err)
	}
	shut(res.Body)
	if rest, err := io.ReadAll(answers); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	for _, idle := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			r, end := memoryRig(t, func(http.ResponseWriter, *http.Request) { <-release }, func(s *Settings, _ *GateSettings) {
				s.ClientIdleTimeout, s.Timeouts.FirstByte = idle, 0
			})
			defer end()
			open(r.gate)
			transport, _ := r.client.Transport.(*http.Transport)
			conn, err := transport.DialContext(t.Context(), "tcp", "front")
			if err != nil {
				t.Fatal(err)
			}
			defer shut(conn)
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			answers := bufio.NewReader(conn)
			time.Sleep(2 * time.Minute) // longer than it may be idle, but it is not
			close(release)
			res, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			shut(res.Body)
			began := time.Now()
			_ = conn.SetReadDeadline(began.Add(48 * time.Hour))
			_, err = answers.ReadByte()
			if took := time.Since(began); (idle > 0 && (!errors.Is(err, io.EOF) || took != idle)) || (idle == 0 && took != 48*time.Hour) {
				t.Errorf("idle_timeout %v: ended after %v, %v", idle, took, err)
			}
		})
	}
}

// TestHalfAHeadIsNotHeldForAnHour has an HTTP/2 client that begins a head and falls silent: neither the limit of heads nor that of idle connections sees it.
func TestHalfAHeadIsNotHeldForAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, end := memoryRig(t, func(http.ResponseWriter, *http.Request) {}, func(s *Settings, _ *GateSettings) { s.ClientIdleTimeout = 65 * time.Minute })
		defer end()
		open(r.gate)
		transport, _ := r.client.Transport.(*http.Transport)
		conn, err := transport.DialContext(t.Context(), "tcp", "front")
		if err != nil {
			t.Fatal(err)
		}
		defer shut(conn)
		halfHead(t, conn)
		began := time.Now()
		for frames := frameReader(conn); ; {
			if _, err := frames.ReadFrame(); err != nil {
				break
			}
		}
		if took := time.Since(began); took > quietClient+answerPing {
			t.Errorf("it stayed for %v", took)
		}
	})
}

// countDials counts the connections that a transport makes.
func countDials(n *int, of *http.Transport) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		*n++

		return of.DialContext(ctx, network, address)
	}
}
