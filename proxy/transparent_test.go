package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// raw sends text over a connection of its own and returns the reader of what comes back.
func (r *rig) raw(t *testing.T, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", r.front)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(conn) })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}

	return conn, bufio.NewReader(conn)
}

func TestTargetsArriveAsTheyWereSent(t *testing.T) {
	t.Parallel()
	perTransport(t, targetsArriveAsTheyWereSent)
}

func targetsArriveAsTheyWereSent(t *testing.T, transport Transport) {
	t.Parallel()
	heads := make(chan string, 1)
	r := socketRig(t, rawBackend(t, func(_ int, conn net.Conn, head string, _ *bufio.Reader) {
		heads <- head
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	}), over(transport))
	open(r.gate)
	for _, target := range []string{
		"/", "/a%2Fb/c", "/a%2fb", "/v2/models/m%20x/infer", "/a|b\"c", "/a//b/../c/.", "/%41?x=%zz&y;z=1", "/p?", "/p?a=1&a=0&b", "//double//slash", "/x?q=a+b%20c#f",
	} {
		_, answers := r.raw(t, "GET "+target+" HTTP/1.1\r\nHost: models.example\r\n\r\n")
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, " 204 ") {
			t.Fatalf("%s: %q, %v", target, line, err)
		}
		head := <-heads
		if line, _, _ := strings.Cut(head, "\r\n"); line != "GET "+target+" HTTP/1.1" {
			t.Errorf("sent %q, arrived %q", target, line)
		}
	}
}

func TestHeadersArriveAsTheyWereSent(t *testing.T) {
	t.Parallel()
	perTransport(t, headersArriveAsTheyWereSent)
}

func headersArriveAsTheyWereSent(t *testing.T, transport Transport) {
	t.Parallel()
	heads := make(chan string, 1)
	r := socketRig(t, rawBackend(t, func(_ int, conn net.Conn, head string, _ *bufio.Reader) {
		heads <- head
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Twice: b\r\nX-Twice: a\r\nServer-Timing: gpu;dur=3\r\nConnection: close\r\nContent-Length: 6\r\n\r\n<html>")
	}), over(transport))
	open(r.gate)
	_, answers := r.raw(t, "GET / HTTP/1.1\r\nHost: models.example:81\r\nX-Twice: b\r\nX-Twice: a\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n"+
		"Idempotency-Key: k\r\nConnection: Upgrade, HTTP2-Settings, X-Hop\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nX-Hop: 1\r\n\r\n")
	res, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(res.Body)
	head := strings.ToLower(<-heads)
	for _, want := range []string{"host: models.example:81\r\n", "x-twice: b\r\nx-twice: a\r\n", "x-forwarded-for: 192.0.2.1, 127.0.0.1\r\n", "x-forwarded-proto: https\r\n", "x-forwarded-host: models.example:81\r\n", "idempotency-key: k\r\n", "x-request-id: "} {
		if !strings.Contains(head, want) {
			t.Errorf("the backend misses %q in\n%s", want, head)
		}
	}
	for _, no := range []string{"user-agent", "accept-encoding", "upgrade", "http2-settings", "x-hop", "content-length", "transfer-encoding", "connection"} {
		if strings.Contains(head, "\n"+no+":") {
			t.Errorf("the backend got %q in\n%s", no, head)
		}
	}
	if types, ok := res.Header["Content-Type"]; ok {
		t.Errorf("a content type was made up: %v", types)
	}
	if got := res.Header.Values("X-Twice"); len(got) != 2 || got[0] != "b" {
		t.Errorf("X-Twice is %v", got)
	}
	if got := res.Header.Values("Server-Timing"); len(got) != 2 || got[0] != "gpu;dur=3" || !strings.HasPrefix(got[1], "hold;dur=") || !strings.Contains(got[1], ", backend;dur=") {
		t.Errorf("Server-Timing is %v", got)
	}
}

func TestC12NothingIsUnpacked(t *testing.T) {
	t.Parallel()
	perTransport(t, nothingIsUnpacked)
}

func nothingIsUnpacked(t *testing.T, transport Transport) {
	t.Parallel()
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = io.WriteString(writer, strings.Repeat("tensor ", 1000))
	shut(writer)
	r := socketRig(t, httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header["Accept-Encoding"] != nil || r.Header.Get("Content-Encoding") != "gzip" || !bytes.Equal(body, packed.Bytes()) || r.ContentLength != int64(packed.Len()) {
			w.WriteHeader(http.StatusTeapot)
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("Content-Length", fmt.Sprint(packed.Len()))
		_, _ = w.Write(packed.Bytes())
	}), over(transport))
	for _, name := range []string{"held", "passing"} {
		request, _ := http.NewRequest(http.MethodPost, "http://"+r.front+"/", bytes.NewReader(packed.Bytes()))
		request.Header.Set("Content-Encoding", "gzip")
		if name == "held" {
			time.AfterFunc(20*time.Millisecond, func() { open(r.gate) })
		}
		res, err := r.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		shut(res.Body)
		if err != nil || res.StatusCode != http.StatusOK || !bytes.Equal(body, packed.Bytes()) || res.Header.Get("Content-Encoding") != "gzip" || res.Header.Get("ETag") != `"e"` || res.ContentLength != int64(packed.Len()) {
			t.Errorf("%s: %d, %d bytes, %v, %v", name, res.StatusCode, len(body), res.Header, err)
		}
	}
}

func TestTrailersPassBothWays(t *testing.T) {
	t.Parallel()
	perTransport(t, trailersPassBothWays)
}

func trailersPassBothWays(t *testing.T, transport Transport) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Declared")
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("X-Declared", r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"X-Undeclared", "2")
	}), over(transport))
	for _, name := range []string{"held", "passing"} {
		request, _ := http.NewRequest(http.MethodPost, "http://"+r.front+"/", io.MultiReader(strings.NewReader("body")))
		request.Trailer = http.Header{"X-Sum": {"1"}}
		if name == "held" {
			time.AfterFunc(20*time.Millisecond, func() { open(r.gate) })
		}
		res, err := r.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		shut(res.Body)
		if string(body) != "body" || res.Trailer.Get("X-Declared") != "1" || res.Trailer.Get("X-Undeclared") != "2" {
			t.Errorf("%s: body %q, trailers %v", name, body, res.Trailer)
		}
	}
}

func TestC02StreamsAreFlushedAtOnce(t *testing.T) {
	t.Parallel()
	perTransport(t, streamsAreFlushedAtOnce)
}

func streamsAreFlushedAtOnce(t *testing.T, transport Transport) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		method string
		header http.Header
		h2     bool // the client speaks it; with gRPC the backend as well, in DATA frames
	}{
		{"events", http.MethodGet, http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, false},
		{"lines", http.MethodGet, http.Header{"Content-Type": {"application/x-ndjson"}}, false},
		{"no type", http.MethodGet, http.Header{"Content-Type": nil}, false},
		{"known length", http.MethodGet, http.Header{"Content-Length": {"60"}}, false},
		{"events h2", http.MethodGet, http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, true},
		{"lines h2", http.MethodGet, http.Header{"Content-Type": {"application/x-ndjson"}}, true},
		{"no type h2", http.MethodGet, http.Header{"Content-Type": nil}, true},
		{"known length h2", http.MethodGet, http.Header{"Content-Length": {"60"}}, true},
		{"gRPC", http.MethodPost, http.Header{"Content-Type": {"application/grpc"}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			next := make(chan struct{})
			r := socketRig(t, httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
				if (r.ProtoMajor == 2) != (test.name == "gRPC") {
					t.Errorf("the backend is spoken to in %s", r.Proto)
				}
				maps.Copy(w.Header(), test.header)
				for range 3 {
					_, _ = fmt.Fprintf(w, "%20s", "piece\n")
					_ = http.NewResponseController(w).Flush()
					<-next
				}
			}), over(transport))
			open(r.gate)
			if test.h2 {
				r.useHTTP2(t)
			}
			request, _ := http.NewRequest(test.method, "http://"+r.front+"/", http.NoBody)
			if test.name == "gRPC" {
				request.Header = test.header.Clone()
			}
			res, err := r.client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer shut(res.Body)
			piece := make([]byte, 20)
			for range 3 { // each is sent only after the one before was received
				if _, err := io.ReadFull(res.Body, piece); err != nil {
					t.Fatal(err)
				}
				next <- struct{}{}
			}
		})
	}
}

func TestC14TunnelOutlivesTheTimeouts(t *testing.T) {
	t.Parallel()
	perTransport(t, tunnelOutlivesTheTimeouts)
}

func tunnelOutlivesTheTimeouts(t *testing.T, transport Transport) {
	t.Parallel()
	r := socketRig(t, rawBackend(t, func(_ int, conn net.Conn, _ string, rest *bufio.Reader) {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, rest)
	}), func(s *Settings, _ *GateSettings) {
		s.Transport = transport
		s.Timeouts.Total, s.Timeouts.FirstByte, s.Timeouts.StreamIdle = 1e9, 1e9, 1e9 // a loaded machine needs a part of it for the upgrade itself
	})
	open(r.gate)
	conn, answers := r.raw(t, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if head, err := readHead(answers); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101") {
		t.Fatalf("%q, %v", head, err)
	}
	if r.gate.Snapshot().InFlight != 1 {
		t.Error("the tunnel is not counted")
	}
	for range 3 {
		time.Sleep(400 * time.Millisecond)
		_, _ = io.WriteString(conn, "echo\n")
		if line, err := answers.ReadString('\n'); err != nil || line != "echo\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	shut(conn)
	until(t, "the tunnel ends", r.quiet)
}

// TestC14EitherSideMayStopSpeaking has an end of a tunnel that half-closes, after which the other still has something to say.
func TestC14EitherSideMayStopSpeaking(t *testing.T) {
	t.Parallel()
	perTransport(t, func(t *testing.T, transport Transport) {
		for _, clientFirst := range []bool{true, false} {
			t.Run(fmt.Sprint("client first ", clientFirst), func(t *testing.T) {
				t.Parallel()
				heard := make(chan string, 1)
				r := socketRig(t, rawBackend(t, func(_ int, conn net.Conn, _ string, rest *bufio.Reader) {
					_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
					heard <- converse(conn, rest, !clientFirst, "from the backend")
				}), over(transport))
				open(r.gate)
				conn, answers := r.raw(t, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				if head, err := readHead(answers); err != nil || !strings.HasPrefix(head, "HTTP/1.1 101") {
					t.Fatalf("%q, %v", head, err)
				}
				if got := converse(conn, answers, clientFirst, "from the client"); got != "from the backend" {
					t.Errorf("the client heard %q", got)
				}
				if got := <-heard; got != "from the client" {
					t.Errorf("the backend heard %q", got)
				}
				until(t, "the tunnel ends", r.quiet)
			})
		}
	})
}

// converse says text and half-closes, before it has heard all of the other side or after, and returns that.
func converse(conn net.Conn, from io.Reader, first bool, text string) string {
	var heard []byte
	if !first {
		heard, _ = io.ReadAll(from)
	}
	_, _ = io.WriteString(conn, text)
	if half, ok := conn.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
	if first {
		heard, _ = io.ReadAll(from)
	}

	return string(heard)
}

func TestInterimAnswersPass(t *testing.T) {
	t.Parallel()
	perTransport(t, interimAnswersPass)
}

func interimAnswersPass(t *testing.T, transport Transport) {
	t.Parallel()
	r := socketRig(t, rawBackend(t, func(_ int, conn net.Conn, _ string, _ *bufio.Reader) {
		_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>")
	}), over(transport))
	open(r.gate)
	_, answers := r.raw(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	first, _ := readHead(answers)
	second, _ := readHead(answers)
	if !strings.HasPrefix(first, "HTTP/1.1 103") || !strings.Contains(first, "Link: </a>") || !strings.HasPrefix(second, "HTTP/1.1 200") || strings.Contains(second, "Link") || strings.Contains(second, "Content-Type") {
		t.Errorf("got\n%s\n%s", first, second)
	}
}

func TestC15UnixSocketSeesTheClientsHost(t *testing.T) {
	t.Parallel()
	perTransport(t, unixSocketSeesTheClientsHost)
}

func unixSocketSeesTheClientsHost(t *testing.T, transport Transport) {
	t.Parallel()
	path := t.TempDir() + "/backend.sock"
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	hosts := make(chan [2]string, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hosts <- [2]string{r.Host, r.Header.Get("X-Forwarded-For")}
	})}
	done := make(chan struct{})
	go func() { _ = server.Serve(listener); close(done) }()
	t.Cleanup(func() { shut(server); <-done })
	address := tcp(path)
	address.Network = "unix"
	r := socketRig(t, address, over(transport))
	open(r.gate)
	r.raw(t, "GET / HTTP/1.1\r\nHost: models.example\r\n\r\n")
	if got := <-hosts; got != [2]string{"models.example", "127.0.0.1"} {
		t.Errorf("got %v", got)
	}
}

func TestC71RequestThatComesBackIsRefused(t *testing.T) {
	t.Parallel()
	perTransport(t, requestThatComesBackIsRefused)
}

func requestThatComesBackIsRefused(t *testing.T, transport Transport) {
	t.Parallel()
	var r *rig
	loop := httpBackend(t, func(w http.ResponseWriter, request *http.Request) {
		// A backend that is the proxy itself, one hop away.
		again, _ := http.NewRequest(http.MethodGet, "http://"+r.front+"/", nil)
		again.Header = request.Header.Clone()
		res, err := r.client.Do(again)
		if err != nil {
			w.WriteHeader(http.StatusTeapot)

			return
		}
		defer shut(res.Body)
		w.WriteHeader(res.StatusCode)
	})
	r = socketRig(t, loop, over(transport))
	open(r.gate)
	if got := r.send(t.Context(), http.MethodGet, "/", nil); got.status != http.StatusLoopDetected {
		t.Errorf("%+v", got)
	}
}
