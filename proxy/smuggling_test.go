package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// marker is a request that follows another on its connection. Whatever becomes of the one before, this must arrive as itself or not at all.
const marker = "GET /next HTTP/1.1\r\nHost: models.example\r\nConnection: close\r\n\r\n"

// hostile is a request that somebody may read as two, or as another.
type hostile struct {
	name  string
	bytes string   // HTTP/1: what the client sends; a host is not added
	want  string   // what arrives, empty for nothing at all
	has   []string // header lines that arrive with it
	lacks []string // names of headers that must not
	may   string   // why the standard transport may let through what it should not
	cut   bool     // the backend may see the beginning of it, and never an end
}

// with1 is a request over HTTP/1 that is sound but for lines.
func with1(lines, body string) string {
	return "POST /a HTTP/1.1\r\nHost: models.example\r\n" + lines + "\r\n" + body
}

const chunkedHello = "5\r\nhello\r\n0\r\n\r\n"

var hostile1 = []hostile{
	{name: "control: length", bytes: with1("Content-Length: 5\r\n", "hello"), want: "POST /a hello", has: []string{"content-length: 5"}},
	{name: "control: chunks", bytes: with1("Transfer-Encoding: chunked\r\n", chunkedHello), want: "POST /a hello", has: []string{"transfer-encoding: chunked"}},

	// Framing.
	{name: "length, then chunks", bytes: with1("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", chunkedHello), want: "POST /a hello", lacks: []string{"content-length"}},
	{name: "chunks, then length", bytes: with1("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", chunkedHello), want: "POST /a hello", lacks: []string{"content-length"}},
	{name: "no length, and chunks", bytes: with1("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", chunkedHello), want: "POST /a hello", lacks: []string{"content-length"}},
	{name: "two lengths", bytes: with1("Content-Length: 5\r\nContent-Length: 0\r\n", "hello")},
	{name: "one length twice", bytes: with1("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello", has: []string{"content-length: 5"}},
	{name: "a list of lengths", bytes: with1("Content-Length: 5, 5\r\n", "hello")},
	{name: "negative length", bytes: with1("Content-Length: -5\r\n", "hello")},
	{name: "length with a sign", bytes: with1("Content-Length: +5\r\n", "hello")},
	{name: "hexadecimal length", bytes: with1("Content-Length: 0x5\r\n", "hello")},
	{name: "length beyond 63 bits", bytes: with1("Content-Length: 18446744073709551621\r\n", "hello")},
	{name: "length of digits with an underscore", bytes: with1("Content-Length: 0_5\r\n", "hello")},
	{name: "chunked, identity", bytes: with1("Transfer-Encoding: chunked, identity\r\n", chunkedHello)},
	{name: "identity, chunked", bytes: with1("Transfer-Encoding: identity, chunked\r\n", chunkedHello)},
	{name: "xchunked", bytes: with1("Transfer-Encoding: xchunked\r\n", chunkedHello)},
	{name: "chunked twice", bytes: with1("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunkedHello)},
	{name: "chunked with a tab before", bytes: with1("Transfer-Encoding:\tchunked\r\n", chunkedHello), want: "POST /a hello", has: []string{"transfer-encoding: chunked"}},
	{name: "chunked with a vertical tab before", bytes: with1("Transfer-Encoding: \x0bchunked\r\n", chunkedHello)},
	{name: "space before the colon", bytes: with1("Transfer-Encoding : chunked\r\n", chunkedHello)},
	{name: "folded encoding", bytes: with1("Transfer-Encoding:\r\n chunked\r\n", chunkedHello), want: "POST /a hello", has: []string{"transfer-encoding: chunked"}},
	{name: "encoding under a name that is nearly its own", bytes: with1("Transfer_Encoding: chunked\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello", has: []string{"content-length: 5"}, lacks: []string{"transfer-encoding"}},
	{name: "chunks in HTTP/1.0", bytes: "POST /a HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunkedHello, want: "POST /a", lacks: []string{"transfer-encoding"}},
	{name: "no body, with chunks", bytes: "GET /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", want: "GET /a"},
	{name: "GET with a body", bytes: "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", want: "GET /a hello"},
	{name: "GET with chunks", bytes: "GET /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + chunkedHello, want: "GET /a hello"},
	{name: "a request in a body", bytes: with1("Content-Length: 33\r\n", "GET /unload HTTP/1.1\r\nHost: h\r\n\r\n"), want: "POST /a GET /unload HTTP/1.1\r\nHost: h\r\n\r\n"},

	// Chunks.
	{name: "chunk extension", bytes: with1("Transfer-Encoding: chunked\r\n", "5;a=b\r\nhello\r\n0;c\r\n\r\n"), want: "POST /a hello"},
	{name: "chunk extension with a bare line end", bytes: with1("Transfer-Encoding: chunked\r\n", "5;a\nhello\r\n0\r\n\r\n"), cut: true},
	{name: "chunk size beyond 64 bits", bytes: with1("Transfer-Encoding: chunked\r\n", "10000000000000005\r\nhello\r\n0\r\n\r\n"), cut: true},
	{name: "negative chunk size", bytes: with1("Transfer-Encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n"), cut: true},
	{name: "chunk size with 0x", bytes: with1("Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\n"), cut: true},
	{name: "no chunk size", bytes: with1("Transfer-Encoding: chunked\r\n", "\r\nhello\r\n0\r\n\r\n"), cut: true},
	{name: "chunk longer than its size", bytes: with1("Transfer-Encoding: chunked\r\n", "3\r\nhello\r\n0\r\n\r\n"), cut: true},
	{name: "chunk shorter than its size", bytes: with1("Transfer-Encoding: chunked\r\n", "7\r\nhello\r\n0\r\n\r\n"), cut: true},
	{name: "chunk that ends in a bare line end", bytes: with1("Transfer-Encoding: chunked\r\n", "5\r\nhello\n0\r\n\r\n"), cut: true},
	{name: "garbage after the last chunk", bytes: with1("Transfer-Encoding: chunked\r\n", chunkedHello+"\x00garbage\r\n\r\n"), want: "POST /a hello"},
	{name: "trailers that frame", bytes: with1("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nContent-Length: 9\r\nHost: other\r\nTransfer-Encoding: gzip\r\n\r\n"), want: "POST /a hello", lacks: []string{"content-length"}},
	{name: "trailers that frame, announced", bytes: with1("Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n", "5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n")},

	// The request line.
	{name: "two spaces after the method", bytes: "GET  /a HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "space in the target", bytes: "GET /a /b HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "tab in the target", bytes: "GET /a\t/b HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "NUL in the target", bytes: "GET /a\x00 HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "byte above 126 in the target", bytes: "GET /a\x80 HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "bare CR in the target", bytes: "GET /a\r HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "CR and LF in the target, escaped", bytes: "GET /a%0d%0aX:%20y HTTP/1.1\r\nHost: h\r\n\r\n", want: "GET /a%0d%0aX:%20y"},
	{name: "space at the end", bytes: "GET /a HTTP/1.1 \r\nHost: h\r\n\r\n"},
	{name: "no version", bytes: "GET /a\r\nHost: h\r\n\r\n"},
	{name: "no such version", bytes: "GET /a HTTP/1.10\r\nHost: h\r\n\r\n"},
	{name: "control character in the method", bytes: "GE\x01T /a HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "odd method", bytes: "m-SEARCH! /a HTTP/1.1\r\nHost: h\r\n\r\n", want: "m-SEARCH! /a"},
	{name: "bare line ends", bytes: "GET /a HTTP/1.1\nHost: h\nX-A: 1\n\n", want: "GET /a", has: []string{"x-a: 1"}},
	{name: "nothing but bare CRs", bytes: "GET /a HTTP/1.1\rHost: h\r\r"},
	{name: "absolute target", bytes: "GET http://models.example/a?b=%zz HTTP/1.1\r\nHost: other\r\n\r\n", want: "GET /a?b=%zz", has: []string{"host: models.example"}},
	{name: "absolute target of another scheme", bytes: "GET ftp://models.example/a HTTP/1.1\r\nHost: other\r\n\r\n", want: "GET /a", has: []string{"host: models.example"}},
	{name: "absolute target with a user", bytes: "GET http://user@models.example/a HTTP/1.1\r\nHost: other\r\n\r\n", want: "GET /a", has: []string{"host: models.example"}},
	{name: "target that is a word", bytes: "GET a HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "target of a scheme without an authority", bytes: "GET a:80 HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "target of a scheme with a path only", bytes: "GET p:/models.example/a HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "absolute target with a space in its host", bytes: "GET http://h%20x/a HTTP/1.1\r\nHost: h\r\n\r\n"},
	{name: "OPTIONS *", bytes: "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", want: "OPTIONS *"},
	{name: "CONNECT", bytes: "CONNECT models.example:80 HTTP/1.1\r\nHost: models.example:80\r\n\r\n"},

	// The host.
	{name: "no host", bytes: "GET /a HTTP/1.1\r\n\r\n"},
	{name: "two hosts", bytes: "GET /a HTTP/1.1\r\nHost: h\r\nHost: other\r\n\r\n"},
	{name: "space in the host", bytes: "GET /a HTTP/1.1\r\nHost: h other\r\n\r\n"},
	{name: "path in the host", bytes: "GET /a HTTP/1.1\r\nHost: h/b\r\n\r\n"},
	{name: "port that is none", bytes: "GET /a HTTP/1.1\r\nHost: h:8o\r\n\r\n"},
	{name: "two ports", bytes: "GET /a HTTP/1.1\r\nHost: h:80:81\r\n\r\n"},
	{name: "address in brackets", bytes: "GET /a HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", want: "GET /a", has: []string{"host: [::1]:80"}},
	{name: "a name in brackets", bytes: "GET /a HTTP/1.1\r\nHost: [h]:80\r\n\r\n"},
	{name: "nothing in brackets", bytes: "GET /a HTTP/1.1\r\nHost: []:80\r\n\r\n"},
	{name: "a bracket that is not closed", bytes: "GET /a HTTP/1.1\r\nHost: [::1\r\n\r\n"},
	{name: "an empty host", bytes: "GET /a HTTP/1.1\r\nHost:\r\n\r\n", want: "GET /a"},
	{name: "user in the host", bytes: "GET /a HTTP/1.1\r\nHost: u@h\r\n\r\n"},

	// Headers.
	{name: "folded value", bytes: with1("X-A: 1\r\n 2\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello", has: []string{"x-a: 1 2", "content-length: 5"}},
	{name: "fold before the first", bytes: "POST /a HTTP/1.1\r\n Host: h\r\nContent-Length: 5\r\n\r\nhello"},
	{name: "no colon", bytes: with1("X-A\r\nContent-Length: 5\r\n", "hello")},
	{name: "no name", bytes: with1(": 1\r\nContent-Length: 5\r\n", "hello")},
	{name: "space in a name", bytes: with1("X A: 1\r\nContent-Length: 5\r\n", "hello")},
	{name: "NUL in a name", bytes: with1("X\x00A: 1\r\nContent-Length: 5\r\n", "hello")},
	{name: "NUL in a value", bytes: with1("X-A: 1\x002\r\nContent-Length: 5\r\n", "hello")},
	{name: "bare CR in a value", bytes: with1("X-A: 1\rX-B: 2\r\nContent-Length: 5\r\n", "hello")},
	{name: "bare LF ends a line", bytes: with1("X-A: 1\nX-B: 2\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello", has: []string{"x-a: 1", "x-b: 2"}},
	{name: "high bytes in a value", bytes: with1("X-A: w\xc3\xb6rld\xff\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello", has: []string{"x-a: w\xc3\xb6rld\xff"}},
	{name: "more of a head than may be", bytes: with1("X-A: "+strings.Repeat("a", 80<<10)+"\r\n", "")},

	// What concerns one hop.
	{name: "the length is said to be of this hop", bytes: with1("Connection: content-length\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello"},
	{name: "the encoding is said to be of this hop", bytes: with1("Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n", chunkedHello), want: "POST /a hello"},
	{name: "the host is said to be of this hop", bytes: with1("Connection: host, x-forwarded-for\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello", has: []string{"host: models.example", "x-forwarded-for: 127.0.0.1"}},
	{name: "headers of this hop", bytes: with1("Connection: x-secret, X-B\r\nConnection: x-c\r\nX-Secret: 1\r\nx-b: 2\r\nX-C: 3\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nTE: gzip\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello", lacks: []string{"connection", "x-secret", "x-b", "x-c", "keep-alive", "proxy-connection", "te"}},
	{name: "h2c by upgrade", bytes: with1("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello", lacks: []string{"connection", "upgrade", "http2-settings"}},
	{name: "h2c by upgrade, among others", bytes: with1("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: websocket, H2C\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello", lacks: []string{"http2-settings", "upgrade: websocket, h2c"}, may: "the word is of no use without its settings"},
	{name: "h2c by upgrade that is not said to be of this hop", bytes: with1("Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello", lacks: []string{"upgrade", "http2-settings"}},

	// Expectations.
	{name: "the client expects a word first", bytes: with1("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello"), want: "POST /a hello"},
	{name: "the client expects a word first, and has no body", bytes: with1("Expect: 100-continue\r\nContent-Length: 0\r\n", ""), want: "POST /a"},
	{name: "the client expects something else", bytes: with1("Expect: 200-ok\r\nContent-Length: 5\r\n", "hello")},
	{name: "the client expects a word first, in chunks", bytes: with1("Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n", chunkedHello), want: "POST /a hello"},
}

func TestHostileRequestsOverHTTP1(t *testing.T) {
	t.Parallel()
	perTransport(t, func(t *testing.T, transport Transport) {
		for _, test := range hostile1 {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				backend := record(t, own)
				r := socketRig(t, backend.address(), over(transport))
				open(r.gate)
				_, answers := r.raw(t, test.bytes+marker)
				answered, begun := 0, time.Now()
				for {
					method, _, _ := strings.Cut(test.bytes, " ")
					got, keep := readReply(answers, method)
					if got.Status != 0 {
						answered++
					}
					if !keep {
						break
					}
				}
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("no answer within %s", took)
				}
				test.judge(t, transport, backend.finish(t, r.handler), answered)
			})
		}
	})
}

// judge compares what arrived with what may.
func (h *hostile) judge(t *testing.T, transport Transport, seen []received, answered int) {
	t.Helper()
	var whole []string
	for _, request := range seen {
		switch {
		case request.fault == nil:
			whole = append(whole, request.String())
		case !errors.Is(request.fault, errCutShort), !h.cut:
			t.Errorf("arrived %s with a fault: %v", request, request.fault)
		}
	}
	want := []string{}
	if h.want != "" {
		want = append(want, strings.TrimRight(h.want, " "))
	}
	if !slices.Equal(whole, want) && !slices.Equal(whole, append(want, "GET /next")) {
		t.Errorf("arrived %q, want %q and perhaps the one after it", whole, want)
	}
	if answered < len(whole) {
		t.Errorf("%d requests arrived, %d were answered", len(whole), answered)
	}
	if h.want == "" || len(seen) == 0 {
		return
	}
	for _, line := range h.has {
		if !slices.Contains(seen[0].header, line) {
			t.Errorf("%q is missing in %q", line, seen[0].header)
		}
	}
	for _, line := range seen[0].header {
		for _, no := range h.lacks {
			if strings.HasPrefix(strings.ToLower(line)+": ", no+": ") {
				if transport == Standard && h.may != "" {
					t.Logf("known: %s: %q arrived", h.may, line)

					continue
				}
				t.Errorf("%q arrived", line)
			}
		}
	}
}

// hostile2 is a request over HTTP/2, whose fields may hold any byte.
type hostile2 struct {
	hostile

	fields  [][2]string
	body    string
	trailer [][2]string
}

// with2 is a request over HTTP/2 that is sound but for what is given: a pseudo-header takes the place of the sound one.
func with2(fields ...string) [][2]string {
	sound := [][2]string{{":method", "POST"}, {":scheme", "http"}, {":authority", "models.example"}, {":path", "/a"}}
	for i := 0; i < len(fields); i += 2 {
		at := slices.IndexFunc(sound, func(f [2]string) bool { return f[0] == fields[i] && strings.HasPrefix(f[0], ":") })
		if at < 0 {
			sound = append(sound, [2]string{fields[i], fields[i+1]})
		} else {
			sound[at][1] = fields[i+1]
		}
	}

	return sound
}

func hostile2s() []hostile2 {
	var tests []hostile2
	add := func(name, want, body string, trailer [][2]string, fields ...string) *hostile2 {
		tests = append(tests, hostile2{hostile{name: name, want: want}, with2(fields...), body, trailer})

		return &tests[len(tests)-1]
	}
	add("control", "POST /a hello", "hello", nil)
	add("control: length", "POST /a hello", "hello", nil, "content-length", "5").has = []string{"content-length: 5"}
	add("control: no body", "POST /a", "", nil)

	for _, method := range []string{"GET /unload HTTP/1.1", "GET /unload HTTP/1.1\r\nHost: h\r\n\r\nGET", "GET\r\nX: y", "GET\n", "G\x00ET", "GET\t", " GET", "", "G(E)T"} {
		add(fmt.Sprintf("method %q", method), "", "", nil, ":method", method)
	}
	for _, path := range []string{"/a b", "/a HTTP/1.1\r\nHost: h\r\n\r\nGET /unload", "/a\r\nX: y", "/a\n", "/a\x00", "/a\x7f", "/a\t", "/\x80", "", "a", "a:80"} {
		add(fmt.Sprintf("path %q", path), "", "", nil, ":path", path)
	}
	add("path with CR and LF, escaped", "POST /a%0d%0aX:%20y hello", "hello", nil, ":path", "/a%0d%0aX:%20y")
	for _, authority := range []string{"h\r\nX: y", "h\n", "h x", "h\x00", "h/b", "u@h", "h\tx", "h?b", "h#b", "h\\b", "\xff"} {
		add(fmt.Sprintf("authority %q", authority), "", "", nil, ":authority", authority)
	}
	for _, value := range []string{"1\r\nX-B: 2", "1\rX-B: 2", "1\nX-B: 2", "1\r\n\r\nGET /unload HTTP/1.1\r\nHost: h\r\n\r\n", "1\x002", "\x7f"} {
		add(fmt.Sprintf("value %q", value), "", "hello", nil, "x-a", value)
	}
	for _, name := range []string{"X-Upper", "x a", "x:", "", "x\r\ny", "x\x00", ":unknown", "x\x80", "transfer-encoding: chunked\r\nx"} {
		add(fmt.Sprintf("name %q", name), "", "hello", nil, name, "1")
	}
	add("pseudo-header after others", "", "", nil, "x-a", "1", ":late", "2")
	add("encoding", "", "hello", nil, "transfer-encoding", "chunked")
	add("connection", "", "hello", nil, "connection", "close")
	add("upgrade", "", "hello", nil, "upgrade", "h2c")
	add("settings of an upgrade", "POST /a hello", "hello", nil, "http2-settings", "AAMAAABk").lacks = []string{"http2-settings"}
	add("te", "", "hello", nil, "te", "gzip")
	add("trailers are welcome", "POST /a hello", "hello", nil, "te", "trailers")
	add("less of a body than said", "", "hello", nil, "content-length", "7").cut = true
	add("more of a body than said", "", "hello", nil, "content-length", "3").cut = true
	add("no body where one is said to be", "", "", nil, "content-length", "5")
	add("two lengths, of which the first is right", "", "hello", nil, "content-length", "5", "content-length", "3")
	add("one length twice", "", "hello", nil, "content-length", "5", "content-length", "5")
	add("a list of lengths", "", "hello", nil, "content-length", "5, 5")
	add("negative length", "", "hello", nil, "content-length", "-5")
	add("length with a sign", "", "hello", nil, "content-length", "+5")
	add("another host", "POST /a hello", "hello", nil, "host", "other").has = []string{"host: models.example"}
	add("crumbs of a cookie", "POST /a hello", "hello", nil, "cookie", "a=1", "cookie", "b=2").has = []string{"cookie: a=1; b=2"}
	add("trailers", "POST /a hello", "hello", [][2]string{{"X-T", "1"}}, "trailer", "x-t")
	add("trailers that frame", "POST /a hello", "hello", [][2]string{{"Content-Length", "9"}, {"Transfer-Encoding", "chunked"}, {"Host", "other"}}).lacks = []string{"content-length"}
	add("trailers that break lines", "", "hello", [][2]string{{"X-T", "1\r\n\r\nGET /unload HTTP/1.1\r\nHost: h\r\n\r\n"}}, "trailer", "x-t").cut = true
	add("pseudo-header among the trailers", "", "hello", [][2]string{{":path", "/b"}}).cut = true
	add("CONNECT", "", "", nil, ":method", "CONNECT")

	return tests
}

func TestHostileRequestsOverHTTP2(t *testing.T) {
	t.Parallel()
	perTransport(t, func(t *testing.T, transport Transport) {
		for _, test := range hostile2s() {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				backend := record(t, own)
				r := socketRig(t, backend.address(), over(transport))
				open(r.gate)
				client := &asker2{t: t, dial: r.dial}
				answered, begun := 0, time.Now()
				for _, got := range []reply{
					client.exchange(test.fields, test.body, test.trailer),
					client.exchange(with2(":method", "GET", ":path", "/next"), "", nil),
				} {
					if got.Status != 0 {
						answered++
					}
				}
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("no answer within %s", took)
				}
				test.judge(t, transport, backend.finish(t, r.handler), answered)
			})
		}
	})
}

// TestTrailersArriveOnlyWhereTheyAreAnnounced has trailers that would frame the next request if they were taken for headers.
func TestTrailersArriveOnlyWhereTheyAreAnnounced(t *testing.T) {
	t.Parallel()
	perTransport(t, func(t *testing.T, transport Transport) {
		for _, h2 := range []bool{false, true} {
			backend := record(t, own)
			r := socketRig(t, backend.address(), over(transport))
			open(r.gate)
			got := r.asker(t, h2).ask(call{method: http.MethodPost, target: "/a", body: "hello", chunked: true, trailer: [][2]string{{"X-Sum", "1"}}})
			seen := backend.finish(t, r.handler)
			if got.Body != "own /a" || len(seen) != 1 || !slices.Equal(seen[0].trailer, []string{"x-sum: 1"}) {
				t.Errorf("%s: %+v, arrived %+v", protocolName(h2), got, seen)
			}
		}
	})
}

// TestRecorderFindsFaults is the control of everything above: a recorder that took any bytes would prove nothing.
func TestRecorderFindsFaults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a HTTP/1.0\r\nHost: h\r\n\r\n", "G ET /a HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a HTTP/1.1\nHost: h\n\n",
		"GET /a HTTP/1.1\r\n\r\n", "GET /a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", "GET /a HTTP/1.1\r\nHost: h x\r\n\r\n", "GET /a HTTP/1.1\r\nHost: h\r\nX A: 1\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: h\r\nX-A: 1\r2\r\n\r\n", "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: +1\r\n\r\na",
		"GET /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;x\r\na\r\n0\r\n\r\n", "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\na",
	} {
		if got, err := readStrictly(io.Discard, bufio.NewReader(strings.NewReader(text))); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}
