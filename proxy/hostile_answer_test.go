package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// hostileAnswer is what a backend says to one request, after which the connection is used again if the proxy dares to.
type hostileAnswer struct {
	name   string
	method string // GET where it is empty
	bytes  string
	hangUp bool // the backend closes its connection after it
	status []int
	body   string
	broken bool // the answer must not seem complete
	sum    string
	keeps  bool // the connection is sound, so it must be used again
	// may says why the standard transport may hand on this answer, or hand a later request something that is not its own.
	may string
}

// ok is the head of a sound answer but for lines.
func ok(lines, body string) string { return "HTTP/1.1 200 OK\r\n" + lines + "\r\n" + body }

const (
	stolen = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"
	// flood and odd are flaws of its reverse proxy.
	flood = "any number of interim answers is handed on"
	odd   = "a status below 100 ends the exchange without an answer"
	// raced is a flaw of net/http: a connection is put into the pool before a look at what its reader holds already.
	raced = "a connection may be used again before what is left in its reader is seen"
)

var hostileAnswers = []hostileAnswer{
	{name: "control: length", bytes: ok("Content-Length: 5\r\n", "hello"), status: []int{200}, body: "hello", keeps: true},
	{name: "control: chunks", bytes: ok("Transfer-Encoding: chunked\r\n", chunkedHello), status: []int{200}, body: "hello", keeps: true},
	{name: "control: up to the end", bytes: ok("", "hello"), hangUp: true, status: []int{200}, body: "hello"},
	{name: "no body", bytes: ok("Content-Length: 0\r\n", ""), status: []int{200}, keeps: true},

	// Answers that have no body, whatever they say.
	{name: "204", bytes: "HTTP/1.1 204 No Content\r\n\r\n", status: []int{204}, keeps: true},
	{name: "204 with a body", bytes: "HTTP/1.1 204 No Content\r\n\r\n" + stolen, status: []int{204}, may: raced},
	{name: "204 with a length and a body", bytes: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", status: []int{204, 502}, may: raced},
	{name: "204 with chunks", bytes: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n" + chunkedHello, status: []int{204, 502}, may: raced},
	{name: "304 with a length", bytes: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: []int{304}},
	{name: "304 with a body", bytes: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello", status: []int{304}, may: raced},
	{name: "HEAD", method: http.MethodHead, bytes: ok("Content-Length: 5\r\n", ""), status: []int{200}, keeps: true},
	{name: "HEAD with a body", method: http.MethodHead, bytes: ok("Content-Length: 5\r\n", "hello"), status: []int{200}, may: raced},
	{name: "HEAD with an answer for a body", method: http.MethodHead, bytes: ok("Content-Length: 44\r\n", stolen), status: []int{200}, may: raced},

	// Interim answers.
	{name: "interim answers", bytes: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 20) + ok("Content-Length: 5\r\n", "hello"), status: []int{200}, body: "hello", keeps: true},
	{name: "interim answers beyond 256 KiB", bytes: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </"+strings.Repeat("a", 1000)+">\r\n\r\n", 300) + ok("Content-Length: 5\r\n", "hello"), status: []int{502}, may: flood},
	{name: "interim answers without an end", bytes: strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20_000) + ok("Content-Length: 5\r\n", "hello"), status: []int{502}, may: flood},
	{name: "interim answer with a length", bytes: "HTTP/1.1 103 Early Hints\r\nContent-Length: 38\r\n\r\n" + ok("Content-Length: 5\r\n", "hello"), status: []int{200, 502}, body: "hello"},
	{name: "end after an interim answer", bytes: "HTTP/1.1 103 Early Hints\r\n\r\n", hangUp: true, status: []int{502}},
	{name: "switch that nobody asked for", bytes: "HTTP/1.1 101 Switching Protocols\r\n\r\n" + stolen, status: []int{502}},
	{name: "switch to h2c that nobody asked for", bytes: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", status: []int{502}},

	// Framing.
	{name: "length, then chunks", bytes: ok("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", chunkedHello), status: []int{200, 502}, body: "hello"},
	{name: "chunks, then length", bytes: ok("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", chunkedHello), status: []int{200, 502}, body: "hello"},
	{name: "two lengths", bytes: ok("Content-Length: 5\r\nContent-Length: 0\r\n", "hello"), status: []int{502}},
	{name: "one length twice", bytes: ok("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), status: []int{200, 502}, body: "hello"},
	{name: "negative length", bytes: ok("Content-Length: -5\r\n", "hello"), status: []int{502}},
	{name: "length with a sign", bytes: ok("Content-Length: +5\r\n", "hello"), status: []int{502}},
	{name: "length beyond 63 bits", bytes: ok("Content-Length: 18446744073709551621\r\n", "hello"), status: []int{502}},
	{name: "unknown encoding", bytes: ok("Transfer-Encoding: gzip, chunked\r\n", chunkedHello), status: []int{502}},
	{name: "bytes after the body", bytes: ok("Content-Length: 5\r\n", "hello") + stolen, status: []int{200}, body: "hello", may: raced},
	{name: "bytes after the last chunk", bytes: ok("Transfer-Encoding: chunked\r\n", chunkedHello) + stolen, status: []int{200}, body: "hello", may: raced},
	{name: "line ends after the body", bytes: ok("Content-Length: 5\r\n", "hello") + "\r\n\r\n", status: []int{200}, body: "hello", may: raced},
	{name: "close, and bytes after the body", bytes: ok("Connection: close\r\nContent-Length: 5\r\n", "hello") + stolen, status: []int{200}, body: "hello"},
	{name: "less of a body than said", bytes: ok("Content-Length: 9\r\n", "hello"), hangUp: true, status: []int{200}, body: "hello", broken: true},
	{name: "nothing of a body", bytes: ok("Content-Length: 9\r\n", ""), hangUp: true, status: []int{0, 200, 502}, broken: true},
	{name: "large body cut short", bytes: ok("Content-Length: 300000\r\n", strings.Repeat("a", 200_000)), hangUp: true, status: []int{200}, body: strings.Repeat("a", 200_000), broken: true},

	// Chunks.
	{name: "no last chunk", bytes: ok("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"), hangUp: true, status: []int{200}, body: "hello", broken: true},
	{name: "no line end after the last chunk", bytes: ok("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n"), hangUp: true, status: []int{200}, body: "hello", broken: true},
	{name: "half a chunk", bytes: ok("Transfer-Encoding: chunked\r\n", "9\r\nhello"), hangUp: true, status: []int{200}, body: "hello", broken: true},
	{name: "half a trailer", bytes: ok("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nX-Sum: "), hangUp: true, status: []int{200}, body: "hello", broken: true},
	{name: "chunk longer than its size", bytes: ok("Transfer-Encoding: chunked\r\n", "5\r\nhelloworld\r\n0\r\n\r\n"), status: []int{200}, body: "hello", broken: true},
	{name: "chunk size that is none", bytes: ok("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\nx\r\n\r\n"), status: []int{200}, body: "hello", broken: true},
	{name: "chunk size beyond 64 bits", bytes: ok("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"), status: []int{200}, body: "hello", broken: true},
	{name: "trailers", bytes: ok("Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"), status: []int{200}, body: "hello", sum: "1", keeps: true},
	{name: "trailers that nobody announced", bytes: ok("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"), status: []int{200}, body: "hello", sum: "1", keeps: true},
	{name: "trailers that frame", bytes: ok("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nContent-Length: 9\r\nX-Sum: 1\r\n\r\n"), status: []int{200}, body: "hello", sum: "1"},

	// HTTP/1.0.
	{name: "HTTP/1.0 with a length", bytes: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", hangUp: true, status: []int{200}, body: "hello"},
	{name: "HTTP/1.0 with a length, left open", bytes: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: []int{200}, body: "hello"},
	{name: "HTTP/1.0 that is kept", bytes: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", status: []int{200}, body: "hello", keeps: true},
	{name: "HTTP/1.0 up to the end", bytes: "HTTP/1.0 200 OK\r\n\r\nhello", hangUp: true, status: []int{200}, body: "hello"},
	{name: "HTTP/1.0 that is kept, up to the end", bytes: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhello", hangUp: true, status: []int{200}, body: "hello"},

	// Heads.
	{name: "no reason", bytes: "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", status: []int{200}, body: "hello"},
	{name: "empty reason", bytes: "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello", status: []int{200}, body: "hello", keeps: true},
	{name: "HTTP/2 in the status line", bytes: "HTTP/2 200\r\nContent-Length: 5\r\n\r\nhello", status: []int{502}},
	{name: "ICY in the status line", bytes: "ICY 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: []int{502}},
	{name: "no status line", bytes: "hello\r\n\r\n", status: []int{502}},
	{name: "status of two digits", bytes: "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello", status: []int{502}},
	{name: "status of four digits", bytes: "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello", status: []int{502}},
	{name: "status below 100", bytes: "HTTP/1.1 099 Odd\r\nContent-Length: 5\r\n\r\nhello", status: []int{502}, may: odd},
	{name: "status 000", bytes: "HTTP/1.1 000 Odd\r\nContent-Length: 5\r\n\r\nhello", status: []int{502}, may: odd},
	{name: "status with a sign", bytes: "HTTP/1.1 +20 Odd\r\nContent-Length: 5\r\n\r\nhello", status: []int{502}, may: odd},
	{name: "status above 599", bytes: "HTTP/1.1 999 Odd\r\nContent-Length: 5\r\n\r\nhello", status: []int{999}, body: "hello", keeps: true},
	{name: "bare line ends", bytes: "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", status: []int{200, 502}, body: "hello"},
	{name: "folded value", bytes: ok("X-A: 1\r\n 2\r\nContent-Length: 5\r\n", "hello"), status: []int{200, 502}, body: "hello"},
	{name: "no colon", bytes: ok("X-A\r\nContent-Length: 5\r\n", "hello"), status: []int{502}},
	{name: "space before the colon", bytes: ok("Content-Length : 5\r\n", "hello"), hangUp: true, status: []int{200, 502}, body: "hello"},
	{name: "NUL in a value", bytes: ok("X-A: 1\x002\r\nContent-Length: 5\r\n", "hello"), status: []int{200, 502}, body: "hello"},
	{name: "bare CR in a value", bytes: ok("X-A: 1\rContent-Length: 9\r\nContent-Length: 5\r\n", "hello"), status: []int{200, 502}, body: "hello"},
	{name: "head beyond 256 KiB", bytes: ok("X-A: "+strings.Repeat("a", 300<<10)+"\r\nContent-Length: 5\r\n", "hello"), status: []int{502}},
	{name: "header lines without an end", bytes: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: 1\r\n", 100_000), status: []int{502}},
	{name: "line without an end", bytes: strings.Repeat("a", 1<<20), status: []int{502}},
	{name: "head that breaks off", bytes: "HTTP/1.1 200 OK\r\nContent-Le", hangUp: true, status: []int{502}},
	{name: "nothing", hangUp: true, status: []int{502}},
}

// hostileScript answers the first request of a rig with a hostile answer and all others with their own.
func (h *hostileAnswer) script() script {
	return func(conn net.Conn, request received) bool {
		if request.target != "/hostile" {
			return own(conn, request)
		}
		_, err := io.WriteString(conn, h.bytes)

		return err == nil && !h.hangUp
	}
}

func (h *hostileAnswer) ask(client asker) reply {
	method := h.method
	if method == "" {
		method = http.MethodGet
	}

	return client.ask(call{method: method, target: "/hostile"})
}

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	perTransport(t, func(t *testing.T, transport Transport) {
		for _, test := range hostileAnswers {
			for _, h2 := range []bool{false, true} {
				t.Run(test.name+" "+protocolName(h2), func(t *testing.T) {
					t.Parallel()
					backend := record(t, test.script())
					dialled := &dials{}
					r := socketRig(t, backend.address(), func(s *Settings, _ *GateSettings) { s.Transport, s.DialContext = transport, dialled.dial })
					open(r.gate)
					client := r.asker(t, h2)
					test.judge(t, transport, test.ask(client))
					for i := range 3 {
						target := fmt.Sprint("/next/", i)
						if got := client.ask(call{method: http.MethodGet, target: target}); got.Status != http.StatusOK || got.Body != "own "+target {
							if transport == Standard && test.may != "" {
								t.Logf("known: %s: %s got %.200q", test.may, target, got.Body)

								continue
							}
							t.Errorf("%s got %d %.200q", target, got.Status, got.Body)
						}
					}
					backend.finish(t, r.handler)
					if n := dialled.n.Load(); test.keeps && n != 1 {
						t.Errorf("%d connections were made where one would do", n)
					}
				})
			}
		}
	})
}

// judge compares what the client got with what it may get.
func (h *hostileAnswer) judge(t *testing.T, transport Transport, got reply) {
	t.Helper()
	fits := false
	for _, status := range h.status {
		fits = fits || got.Status == status
	}
	switch {
	case !fits && transport == Standard && h.may != "":
		t.Logf("known: %s: got %d %.200q", h.may, got.Status, got.Body)
	case !fits:
		t.Errorf("got %d %.200q, broken %v, want %v", got.Status, got.Body, got.Broken, h.status)
	case got.Status == http.StatusBadGateway:
		if got.Broken {
			t.Error("our own answer is broken")
		}
	case got.Body != h.body || got.Broken != h.broken || got.Trailer.Get("X-Sum") != h.sum:
		t.Errorf("got %.200q, broken %v, trailers %v; want %.200q, broken %v, sum %q", got.Body, got.Broken, got.Trailer, h.body, h.broken, h.sum)
	}
}

// TestWordsOnAnIdleConnectionAreNoAnswer has a backend that speaks, or leaves, on a connection that waits in the pool.
func TestWordsOnAnIdleConnectionAreNoAnswer(t *testing.T) {
	t.Parallel()
	perTransport(t, func(t *testing.T, transport Transport) {
		for _, words := range []string{stolen, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "\r\n", "x", ""} {
			t.Run(fmt.Sprintf("%.20q", words), func(t *testing.T) {
				t.Parallel()
				said, say := make(chan struct{}), make(chan struct{})
				backend := record(t, func(conn net.Conn, request received) bool {
					keep := own(conn, request)
					if request.target == "/first" {
						<-say
						_, _ = io.WriteString(conn, words)
						if words == "" {
							shut(conn)
						}
						close(said)
					}

					return keep
				})
				r := socketRig(t, backend.address(), over(transport))
				open(r.gate)
				client := r.asker(t, false)
				if got := client.ask(call{method: http.MethodPost, target: "/first", body: "x"}); got.Body != "own /first" {
					t.Fatalf("%+v", got)
				}
				until(t, "quiet", r.quiet)
				close(say)
				<-said
				for _, target := range []string{"/next/0", "/next/1"} {
					if got := client.ask(call{method: http.MethodPost, target: target, body: "x"}); got.Body != "own "+target {
						if transport == Standard {
							t.Logf("known: %s: %s got %+v", raced, target, got)

							continue
						}
						t.Errorf("%s got %+v", target, got)
					}
				}
			})
		}
	})
}
