package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rawBackend lets handle speak on each connection, of which the n-th is given.
func rawBackend(tb testing.TB, handle func(n int, conn net.Conn, r *bufio.Reader)) *Transport {
	tb.Helper()
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		tb.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer func() { _ = conn.Close() }()
				handle(n, conn, bufio.NewReader(conn))
			})
		}
	})
	t := NewTransport(Settings{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
		},
		MaxIdle: 8, IdleTimeout: time.Minute,
	})
	tb.Cleanup(func() {
		t.CloseIdleConnections()
		_ = listener.Close()
		done.Wait()
	})

	return t
}

// script answers the requests of all connections with the given answers, in turn, and records what it read.
func script(tb testing.TB, answers ...string) (*Transport, func() []string) {
	tb.Helper()
	var mu sync.Mutex
	var heads []string
	t := rawBackend(tb, func(_ int, conn net.Conn, r *bufio.Reader) {
		for {
			head, err := readHead(r)
			if err != nil {
				return
			}
			mu.Lock()
			at := len(heads)
			heads = append(heads, head)
			mu.Unlock()
			if at >= len(answers) {
				return
			}
			_, _ = io.WriteString(conn, answers[at])
		}
	})

	return t, func() []string {
		mu.Lock()
		defer mu.Unlock()

		return heads
	}
}

func readHead(r *bufio.Reader) (string, error) {
	var head strings.Builder
	for {
		line, err := r.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String(), err
		}
	}
}

// silentWatcher is told and says nothing.
type silentWatcher struct{}

func (silentWatcher) Dialed() error            { return nil }
func (silentWatcher) Sent()                    {}
func (silentWatcher) Interim(int, http.Header) {}

// result is what an exchange brought.
type result struct {
	status  int
	header  http.Header
	body    string
	trailer http.Header
	err     error
}

func do(t *Transport, r *Request) (got result) {
	var e Exchange
	defer e.Close()
	got.header = http.Header{}
	if r.Host == "" {
		r.Host = "backend"
	}
	if r.Target == "" {
		r.Target = "/"
	}
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	if got.err = e.Do(context.Background(), t, r, silentWatcher{}, got.header); got.err != nil {
		return got
	}
	got.status = e.Status
	body, err := io.ReadAll(&e)
	got.body, got.err, got.trailer = string(body), err, e.Trailer()

	return got
}

func reasonOf(err error) string {
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed.Reason.String()
	}
	if err != nil {
		return err.Error()
	}

	return ""
}

func TestAnswersAreReadStrictly(t *testing.T) {
	t.Parallel()
	const good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext"
	tests := []struct {
		name   string
		answer string
		method string
		status int
		body   string
		reason string // of the failure
		kept   bool   // the connection serves the next exchange
	}{
		{name: "known length", answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", status: 200, body: "hi", kept: true},
		{name: "bare line feeds", answer: "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", status: 200, body: "hi", kept: true},
		{name: "no reason phrase", answer: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", status: 200, kept: true},
		{name: "chunks and trailer", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n0\r\nA: b\r\n\r\n", status: 200, body: "hi", kept: true},
		{name: "until the end", answer: "HTTP/1.0 200 OK\r\n\r\nhi", status: 200, body: "hi"},
		{name: "told to close", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", status: 200, body: "hi"},
		{name: "1.0 keeps", answer: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi", status: 200, body: "hi", kept: true},
		{name: "1.0 without keep-alive", answer: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", status: 200, body: "hi"},
		{name: "no content", answer: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, kept: true},
		{name: "no content, with a body", answer: "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nhi", status: 204},
		{name: "no content, with bytes", answer: "HTTP/1.1 204 No Content\r\n\r\nhi", status: 204},
		{name: "not modified", answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", status: 304, kept: true},
		{name: "head", answer: "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", method: "HEAD", status: 200, kept: true},
		{name: "head, with a body", answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", method: "HEAD", status: 200},
		{name: "interim answers", answer: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", status: 200, body: "hi", kept: true},
		{name: "bytes left", answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi HTTP/1.1 200 OK\r\n", status: 200, body: "hi"},
		{name: "length and chunks", answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", status: 200, body: "hi"},
		{name: "the same length twice", answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", status: 200, body: "hi", kept: true},
		{name: "two lengths", answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi", reason: "malformed"},
		{name: "list of lengths", answer: "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi", reason: "malformed"},
		{name: "length below 0", answer: "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi", reason: "malformed"},
		{name: "length with a sign", answer: "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi", reason: "malformed"},
		{name: "empty length", answer: "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhi", reason: "malformed"},
		{name: "other encoding", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", reason: "malformed"},
		{name: "chunked twice", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reason: "malformed"},
		{name: "chunks in 1.0", answer: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", reason: "malformed"},
		{name: "folded line", answer: "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", reason: "malformed"},
		{name: "no colon", answer: "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", reason: "malformed"},
		{name: "space before the colon", answer: "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", reason: "malformed"},
		{name: "NUL in a value", answer: "HTTP/1.1 200 OK\r\nA: b\x00c\r\n\r\n", reason: "malformed"},
		{name: "carriage return in a value", answer: "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", reason: "malformed"},
		{name: "other protocol", answer: "ICY 200 OK\r\n\r\n", reason: "malformed"},
		{name: "version 2", answer: "HTTP/2 200\r\n\r\n", reason: "malformed"},
		{name: "status of four digits", answer: "HTTP/1.1 2000 OK\r\n\r\n", reason: "malformed"},
		{name: "status below 100", answer: "HTTP/1.1 099 OK\r\n\r\n", reason: "malformed"},
		{name: "empty line first", answer: "\r\nHTTP/1.1 200 OK\r\n\r\n", reason: "malformed"},
		{name: "switch that nobody asked for", answer: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", reason: "malformed"},
		{name: "endless headers", answer: "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 300), reason: "malformed"},
		{name: "endless line", answer: "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 300<<10), reason: "malformed"},
		{name: "flood of interim answers", answer: strings.Repeat("HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n", 10_000), reason: "malformed"},
		{name: "cut off in the head", answer: "HTTP/1.1 200 OK\r\nConte", reason: "broken"},
		{name: "cut off in the body", answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nhi", status: 200, body: "hi", reason: "unexpected EOF"},
		{name: "cut off in a chunk", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n9\r\nhi", status: 200, body: "hi", reason: "unexpected EOF"},
		{name: "cut off before the last chunk", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nhi\r\n", status: 200, body: "hi", reason: "unexpected EOF"},
		{name: "cut off in the trailer", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n", status: 200, body: "hi", reason: "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			answers := make(chan string, 2)
			answers <- tt.answer
			answers <- good
			connections := make(chan int, 4)
			transport := rawBackend(t, func(n int, conn net.Conn, r *bufio.Reader) {
				for {
					if _, err := readHead(r); err != nil {
						return
					}
					connections <- n
					answer := <-answers
					_, _ = io.WriteString(conn, answer)
					if answer != good && (strings.Contains(answer, "close") || tt.reason == "broken" || (strings.Contains(answer, "HTTP/1.0") && !strings.Contains(answer, "keep-alive"))) {
						return
					}
				}
			})
			got := do(transport, &Request{Method: tt.method})
			if got.status != tt.status || got.body != tt.body || reasonOf(got.err) != tt.reason {
				t.Errorf("got status %d, %q and error %v, want %d, %q and %q", got.status, got.body, got.err, tt.status, tt.body, tt.reason)
			}
			// Whatever came, the next exchange gets its own answer.
			if next := do(transport, &Request{}); next.body != "next" || next.err != nil {
				t.Errorf("the next exchange got %q and error %v", next.body, next.err)
			}
			if first, second := <-connections, <-connections; (first == second) != tt.kept {
				t.Errorf("the connection was kept: %v, want %v", first == second, tt.kept)
			}
		})
	}
}
