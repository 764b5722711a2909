package upstream

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
)

// FuzzAnswer lets a backend say anything to the first exchange. What we make of it net/http makes of it too, and the next exchange, on whatever connection, gets its own answer.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.0 200 OK\nConnection: keep-alive\nContent-Length: 0\n\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nConnection: X\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, answer []byte, head bool) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		listener := memnet.Listen()
		defer func() { _ = listener.Close() }()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			converse(listener, answer, method)
		}()
		transport := NewTransport(Settings{
			Dial: func(ctx context.Context) (net.Conn, error) {
				conn, err := listener.DialContext(ctx, "tcp", "backend:80")
				if err == nil {
					_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
				}

				return conn, err
			},
			MaxIdle: 2,
		})
		got := do(transport, &Request{Method: method, Target: "/first"})
		compare(t, got, answer, method)
		if next := do(transport, &Request{Target: "/next"}); next.err != nil || next.body != "the next answer" {
			t.Errorf("the next exchange got %q and error %v", next.body, next.err)
		}
		transport.CloseIdleConnections()
		_ = listener.Close()
		<-ended
	})
}

// converse gives answer to the first request and a good one to the second, each once, and closes the first one's connection unless it is used again.
func converse(listener net.Listener, answer []byte, method string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		r := bufio.NewReader(conn)
		for {
			line, err := readHead(r)
			if err != nil {
				break
			}
			if strings.Contains(line, "/next") {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nthe next answer")
			} else if _, err := conn.Write(answer); err != nil || !complete(answer, method) {
				break
			}
		}
		_ = conn.Close()
	}
}

// complete says whether answer needs no closing to end, by net/http's reading.
func complete(answer []byte, method string) bool {
	r := bufio.NewReader(bytes.NewReader(answer))
	for {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return false
		}
		if res.StatusCode >= http.StatusOK {
			_, err := io.Copy(io.Discard, res.Body)

			return err == nil && !res.Close
		}
	}
}

// compare fails if we took an answer that net/http refuses, or in another sense.
func compare(t *testing.T, got result, answer []byte, method string) {
	t.Helper()
	if got.err != nil {
		return // we may be stricter
	}
	r := bufio.NewReader(bytes.NewReader(answer))
	var res *http.Response
	for {
		var err error
		if res, err = http.ReadResponse(r, &http.Request{Method: method}); err != nil {
			t.Fatalf("we took what net/http refuses: %v", err)
		}
		if res.StatusCode >= http.StatusOK {
			break
		}
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != got.body || res.StatusCode != got.status {
		t.Errorf("we read status %d and %q, net/http %d, %q and error %v", got.status, got.body, res.StatusCode, body, err)
	}
	for name, values := range got.header {
		if name != "Content-Length" && !reflect.DeepEqual(values, res.Header[name]) {
			t.Errorf("%s: we read %q, net/http %q", name, values, res.Header[name])
		}
	}
}
