package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// echoServer is net/http's server, which sends back the bodies that it gets while they come, and their trailers.
func echoServer(t *testing.T) *Transport {
	t.Helper()

	return rawBackend(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n")
			chunks := httputil.NewChunkedWriter(conn)
			if _, err := io.Copy(chunks, request.Body); err != nil {
				return
			}
			_ = chunks.Close()
			if _, err := fmt.Fprintf(conn, "X-T: %s\r\n\r\n", request.Trailer.Get("X-T")); err != nil {
				return
			}
		}
	})
}

// trailing sets a trailer when it has been read.
type trailing struct {
	io.Reader

	trailer http.Header
}

func (r trailing) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		r.trailer.Set("X-T", "after")
	}

	return n, err
}

func TestBodiesArriveWhole(t *testing.T) {
	t.Parallel()
	transport := echoServer(t)
	for _, size := range []int{1, 1000, maxInline - 200, maxInline, maxInline + 1, 16 << 20} { // the last one deadlocks if it is sent before the answer is read
		for _, known := range []bool{true, false} {
			text := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			for _, reader := range []io.Reader{bytes.NewReader(text), iotest.HalfReader(bytes.NewReader(text)), iotest.DataErrReader(bytes.NewReader(text))} {
				request := &Request{Method: "POST", Length: int64(size), Body: reader, Ready: true}
				if !known {
					request.Length, request.Trailer = -1, http.Header{"X-T": nil}
					request.Body = trailing{reader, request.Trailer}
				}
				got := do(transport, request)
				if got.err != nil || got.body != string(text) {
					t.Fatalf("%d bytes, known: %v: got %d bytes back and error %v", size, known, len(got.body), got.err)
				}
				if trailer := got.trailer.Get("X-T"); (trailer == "after") == known {
					t.Errorf("%d bytes, known: %v: trailer %q", size, known, trailer)
				}
			}
		}
	}
	if n := transport.Idle(); n != 1 {
		t.Errorf("%d connections are kept after exchanges one by one", n)
	}
}

// TestC01AnswerToAnUnreadUploadArrives has a backend that answers the head and closes.
func TestC01AnswerToAnUnreadUploadArrives(t *testing.T) {
	t.Parallel()
	transport := rawBackend(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		_, _ = readHead(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge")
		_ = tcpOf(t, conn).CloseWrite()
		_, _ = io.CopyN(io.Discard, r, 1<<20) // a while later it resets
	})
	for i := range 50 {
		request := &Request{Method: "POST", Length: 20 << 20, Body: io.LimitReader(zeros{}, 20<<20)}
		if i%2 == 1 {
			request.Length = -1
		}
		if got := do(transport, request); got.status != http.StatusRequestEntityTooLarge || got.body != "large" || got.err != nil {
			t.Fatalf("run %d: %+v", i, got)
		}
	}
}

// zeros are endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestBodyThatBreaksOffDoesNotLookComplete(t *testing.T) {
	t.Parallel()
	const whole = 100 << 10
	seen := make(chan error, 1)
	transport := rawBackend(t, func(_ int, _ net.Conn, r *bufio.Reader) {
		request, err := http.ReadRequest(r)
		if err == nil {
			_, err = io.Copy(io.Discard, request.Body)
		}
		seen <- err
	})
	broken := errors.New("the client left")
	for _, length := range []int64{whole, -1} {
		request := &Request{Method: "POST", Length: length, Body: io.MultiReader(io.LimitReader(zeros{}, whole/2), iotest.ErrReader(broken))}
		if got := do(transport, request); reasonOf(got.err) != "body_broken" || !errors.Is(got.err, broken) {
			t.Errorf("length %d: got error %v", length, got.err)
		}
		if err := <-seen; err == nil {
			t.Errorf("length %d: the backend took half of the body for all of it", length)
		}
	}
}

func TestExpectation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		first  string // what the backend says before it reads the body
		reads  bool   // whether it reads it
		status int
	}{
		{name: "asked for", first: "HTTP/1.1 100 Continue\r\n\r\n", reads: true, status: 200},
		{name: "ignored", reads: true, status: 200},
		{name: "refused", first: "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n", status: 417},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			transport := rawBackend(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				head, _ := readHead(r)
				if !strings.Contains(head, "Expect: 100-continue\r\n") {
					t.Errorf("the backend got %q", head)
				}
				_, _ = io.WriteString(conn, tt.first)
				if tt.reads {
					_, _ = io.CopyN(io.Discard, r, 4)
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				} else if n, _ := io.Copy(io.Discard, r); n > 0 {
					t.Errorf("%d bytes of a body that was refused were sent", n)
				}
			})
			if got := do(transport, &Request{Method: "POST", Length: 4, Ready: true, Body: strings.NewReader("body"), Expect: true}); got.status != tt.status || got.err != nil {
				t.Errorf("%+v", got)
			}
			if kept := transport.Idle() == 1; kept != tt.reads {
				t.Errorf("the connection was kept: %v", kept)
			}
		})
	}
}

// TestOnlyWhatWasNeverReadIsSentAgain has a backend that has accepted nothing yet when its port closes on the request, and one whose process took it.
func TestOnlyWhatWasNeverReadIsSentAgain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reset func(conn *net.TCPConn, r *bufio.Reader)
		again bool
	}{
		{name: "reset unread", again: true, reset: func(conn *net.TCPConn, _ *bufio.Reader) {
			_ = conn.SetLinger(0)
		}},
		{name: "closed unread", again: true, reset: func(*net.TCPConn, *bufio.Reader) {}},
		{name: "closed after it was read", reset: func(_ *net.TCPConn, r *bufio.Reader) { _, _ = readHead(r) }},
		{name: "reset after it was read", reset: func(conn *net.TCPConn, r *bufio.Reader) {
			_, _ = readHead(r)
			_ = conn.SetLinger(0)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			idle := make(chan struct{})
			transport := rawBackend(t, func(n int, conn net.Conn, r *bufio.Reader) {
				_, _ = readHead(r)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"+fmt.Sprint(n))
				if n == 0 {
					<-idle
					tt.reset(tcpOf(t, conn), r)
				}
			})
			if got := do(transport, &Request{}); got.body != "0" {
				t.Fatalf("%+v", got)
			}
			// The window in which a connection dies after the look at it and before the write cannot be hit at will, so the look is left out.
			c := transport.pool.pop()
			e := Exchange{
				transport: transport, watcher: silentWatcher{}, into: http.Header{}, conn: c, before: c.sent,
				request: &Request{Method: "POST", Target: "/", Host: "h", Length: 4, Ready: true, Body: strings.NewReader("body")},
			}
			defer e.Close()
			if tt.again {
				close(idle)
				until(t, c.stale)
			}
			e.silent = true
			if err := e.send(); err == nil {
				if !tt.again {
					close(idle)
				}
				if err := e.readAnswer(); err == nil {
					t.Fatal("an answer came")
				}
			}
			if again := e.undelivered(); again != tt.again {
				t.Errorf("it may be sent again: %v, want %v", again, tt.again)
			}
		})
	}
}

// tcpOf is conn as what it is.
func tcpOf(t *testing.T, conn net.Conn) *net.TCPConn {
	t.Helper()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Errorf("a %T is no TCP connection", conn)
	}

	return tcp
}

// until waits for what another process is about to make true.
func until(t *testing.T, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); {
		if time.Now().After(end) {
			t.Fatal("never")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestConnectionThatFailsTheFirstWriteIsReplaced(t *testing.T) {
	t.Parallel()
	transport, heads := script(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	if got := do(transport, &Request{}); got.err != nil {
		t.Fatal(got.err)
	}
	transport.pool.idle[0].Conn = deaf{transport.pool.idle[0].Conn}
	if got := do(transport, &Request{Method: "POST", Length: 4, Ready: true, Body: strings.NewReader("body")}); got.status != http.StatusOK || len(heads()) != 2 {
		t.Errorf("%+v, the backend got %q", got, heads())
	}
}

// deaf is a connection that takes nothing.
type deaf struct{ net.Conn }

func (deaf) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestSwitchedConnectionIsATunnel(t *testing.T) {
	t.Parallel()
	transport := rawBackend(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		_, _ = readHead(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\nhello ")
		_, _ = io.Copy(conn, r) // until the half-close
		_, _ = io.WriteString(conn, " bye")
	})
	var e Exchange
	defer e.Close()
	header := http.Header{}
	if err := e.Do(context.Background(), transport, &Request{Method: "GET", Target: "/", Host: "h", Upgrade: "chat"}, silentWatcher{}, header); err != nil || e.Status != http.StatusSwitchingProtocols {
		t.Fatal(e.Status, err)
	}
	tunnel := e.Tunnel()
	_, _ = io.WriteString(tunnel, "there")
	if err := tunnel.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(tunnel); string(all) != "hello there bye" || err != nil || header.Get("Upgrade") != "chat" {
		t.Errorf("got %q and error %v, header %v", all, err, header)
	}
}

// TestSplice moves the rest of an answer from one connection to another.
func TestSplice(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	for _, tt := range []struct {
		name string
		head string
		sent int
		err  error
		any  bool // the kernel moves something
	}{
		{"known length", fmt.Sprintf("Content-Length: %d", size), size, io.EOF, true},
		{"cut off", fmt.Sprintf("Connection: close\r\nContent-Length: %d", size), size / 2, io.ErrUnexpectedEOF, true},
		{"unknown length", "Connection: close", size, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			transport := rawBackend(t, func(_ int, conn net.Conn, r *bufio.Reader) {
				_, _ = readHead(r)
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", tt.head)
				_, _ = conn.Write(make([]byte, tt.sent))
				if tt.sent == size && tt.any {
					_, _ = readHead(r) // until it is closed
				}
			})
			var e Exchange
			defer e.Close()
			if err := e.Do(context.Background(), transport, &Request{Method: "GET", Target: "/", Host: "h"}, silentWatcher{}, http.Header{}); err != nil {
				t.Fatal(err)
			}
			to := &drain{}
			var moved, read int64
			var err error
			for err == nil && read+moved < size {
				n, failed := e.Splice(to, 1<<20)
				moved, err = moved+n, failed
				if n == 0 && err == nil {
					n, failed := e.Read(make([]byte, 4<<10))
					read, err = read+int64(n), failed
				}
			}
			if got := moved > 0; got != tt.any || moved != to.n || (tt.err != nil && !errors.Is(err, tt.err)) || moved+read != int64(tt.sent) {
				t.Errorf("%d bytes were read and %d spliced, of which %d came, error %v", read, moved, to.n, err)
			}
			if kept := transport.Idle() == 1; kept != (tt.sent == size && tt.any) {
				t.Errorf("the connection is kept: %v", kept)
			}
		})
	}
}

// drain takes what is spliced.
type drain struct{ n int64 }

func (d *drain) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, r)
	d.n += n

	return n, err
}
