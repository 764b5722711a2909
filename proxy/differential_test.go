package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deviations are the rows in which the two transports differ on purpose, by the name of the row, with the reason.
var deviations = map[string]string{
	"answer: trailers that frame":            "stdlib: trailers of any name are handed on",
	"header empty user agent":                "stdlib: an empty User-Agent is left out",
	"answer: 204 with a length and a body":   "stdlib: " + raced,
	"answer: interim answers beyond 256 KiB": "stdlib: " + flood,
	"answer: interim answers without an end": "stdlib: " + flood,
	"answer: status below 100":               "stdlib: " + odd,
	"answer: status 000":                     "stdlib: " + odd,
	"answer: status with a sign":             "stdlib: " + odd,
	"answer: one length twice":               "direct: an answer that says its length twice is understood in two ways by some",
	"answer: length, then chunks":            "direct: as above",
	"answer: chunks, then length":            "direct: as above",
	"answer: NUL in a value":                 "direct: a byte that no value may hold",
	"answer: bare CR in a value":             "direct: as above",
	"answer: interim answer with a length":   "direct: as above",
	"answer: folded value":                   "direct: as above",
	"answer: bare line ends":                 "direct: as above",
	"answer: space before the colon":         "direct: as above",
	"answer: switch that nobody asked for":   "stdlib: may be taken for a tunnel",
	"answer: nothing of a body":              "the head of an answer without a body may leave before its end is seen",
}

// row is one recorded exchange: what a client asks, and what the backend says to it.
type row struct {
	name   string
	call   call
	answer string // empty: the request's own
	hangUp bool
}

func fields(pairs ...string) (list [][2]string) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, [2]string{pairs[i], pairs[i+1]})
	}

	return list
}

// rows are the requests of usual clients, with sound answers, and then all hostile answers.
func rows() []row {
	var list []row
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "m-search"} {
		list = append(list, row{name: "method " + method, call: call{method: method, target: "/v1/models"}})
		if method != "HEAD" && method != "TRACE" {
			list = append(list,
				row{name: "method " + method + " with a body", call: call{method: method, target: "/a", body: "hello"}},
				row{name: "method " + method + " with chunks", call: call{method: method, target: "/a", body: "hello", chunked: true}})
		}
	}
	for _, target := range []string{"/", "/?", "/?a=1&a=2", "/%2F%2f", "/a%20b?c=%zz", "//a//b", "/a/../b/./c", "/a;b=c,d", "/a?b?c", "/~'()*!$&+,;=:@", "/a?b=[1]{2}|3^4`\"<>", "/a#b", "/%", "/a%0d%0a"} {
		list = append(list, row{name: "target " + target, call: call{method: "GET", target: target}})
	}
	headers := map[string][][2]string{
		"order of one name":      fields("X-A", "2", "X-B", "b", "X-A", "1", "X-A", "3"),
		"empty value":            fields("X-Empty", ""),
		"bytes of UTF-8":         fields("X-A", "wörld \xff"),
		"no user agent":          nil,
		"user agent":             fields("User-Agent", "curl/8"),
		"empty user agent":       fields("User-Agent", ""),
		"accepts gzip":           fields("Accept-Encoding", "gzip"),
		"cookies":                fields("Cookie", "a=1; b=2"),
		"forwarded":              fields("Forwarded", "for=1.2.3.4", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-For", "192.0.2.2", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "a.example"),
		"trace":                  fields("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "Tracestate", "a=b", "Baggage", "c=d", "B3", "0"),
		"request id":             fields("X-Request-Id", "mine"),
		"idempotency key":        fields("Idempotency-Key", "k"),
		"triton":                 fields("Inference-Header-Content-Length", "187"),
		"authorization":          fields("Authorization", "Bearer secret", "Proxy-Authorization", "Basic x"),
		"trailers are welcome":   fields("TE", "trailers"),
		"origin":                 fields("Origin", "http://a", "Referer", "http://b/c?d"),
		"range":                  fields("Range", "bytes=0-1", "If-None-Match", `"e"`),
		"a name with odd bytes":  fields("X!#$%&'*+.^_`|~", "1"),
		"a value with odd bytes": fields("X-A", "a\tb;c=\"d, e\" (f)"),
		"deadline":               fields("X-Envoy-Expected-Rq-Timeout-Ms", "5x"),
		"settings of an upgrade": fields("Http2-Settings", "AAMAAABk"),
	}
	for name, header := range headers {
		list = append(list, row{name: "header " + name, call: call{method: "POST", target: "/a", header: header, body: "hello"}})
	}
	list = append(list,
		row{name: "trailers", call: call{method: "POST", target: "/a", body: "hello", chunked: true, trailer: fields("X-Sum", "1", "X-Other", "2")}},
		row{name: "large body", call: call{method: "POST", target: "/a", body: strings.Repeat("a", 50_000)}},
		row{name: "large chunk", call: call{method: "POST", target: "/a", body: strings.Repeat("a", 50_000), chunked: true}},
	)
	for _, header := range []string{
		"Content-Type: text/event-stream", "Content-Type: ", "X-Twice: b\r\nX-Twice: a", "Set-Cookie: a=1\r\nSet-Cookie: b=2", "Content-Encoding: gzip", "ETag: \"e\"", "Date: Mon, 01 Jan 2024 00:00:00 GMT",
		"Connection: x-secret\r\nX-Secret: 1", "Keep-Alive: timeout=5\r\nProxy-Connection: x", "Server: s\r\nVia: 1.1 a", "Upgrade: h2c", "X-Request-Id: theirs", "Server-Timing: gpu;dur=3", "Location: http://backend/a", "WWW-Authenticate: Basic\r\nWWW-Authenticate: Bearer", "X-Empty:",
	} {
		list = append(list, row{name: fmt.Sprintf("answer with %q", header), call: call{method: "GET", target: "/a"}, answer: ok(header+"\r\nContent-Length: 5\r\n", "hello")})
	}
	for _, status := range []int{201, 206, 300, 301, 304, 307, 400, 401, 404, 408, 413, 425, 429, 431, 500, 502, 503, 504, 511, 599, 600, 999} {
		body := "hello"
		if status == http.StatusNotModified {
			body = ""
		}
		list = append(list, row{name: fmt.Sprint("status ", status), call: call{method: "POST", target: "/a", body: "x"}, answer: fmt.Sprintf("HTTP/1.1 %d Reason\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)})
	}
	list = append(list, row{name: "early hints", call: call{method: "GET", target: "/a"}, answer: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + ok("Content-Length: 5\r\n", "hello")})
	for _, hostile := range hostileAnswers {
		method := hostile.method
		if method == "" {
			method = http.MethodGet
		}
		list = append(list, row{name: "answer: " + hostile.name, call: call{method: method, target: "/a"}, answer: hostile.bytes, hangUp: hostile.hangUp})
	}

	return list
}

// observed is what both ends saw of an exchange, without what differs from one to the next.
type observed struct {
	Arrived []string
	Got     reply
}

// run makes the exchange once.
func (r row) run(t *testing.T, transport Transport, h2 bool) observed {
	t.Helper()
	backend := record(t, func(conn net.Conn, request received) bool {
		if r.answer == "" && !r.hangUp {
			return own(conn, request)
		}
		_, err := io.WriteString(conn, r.answer)

		return err == nil && !r.hangUp
	})
	rig := socketRig(t, backend.address(), over(transport))
	open(rig.gate)
	seen := observed{Got: rig.asker(t, h2).ask(r.call)}
	for _, request := range backend.finish(t, rig.handler) {
		if request.fault != nil {
			t.Errorf("%s: arrived with a fault: %v", transport, request.fault)
		}
		seen.Arrived = append(seen.Arrived, request.normal()...)
	}
	for _, name := range []string{"Date", "Server-Timing", "X-Request-Id", "Trailer"} {
		delete(seen.Got.Header, name) // ours, of this moment or of this hop
	}
	if seen.Got.Status == http.StatusBadGateway && strings.Contains(seen.Got.Body, "backend_broke") {
		seen.Got.Body = "backend_broke"
		delete(seen.Got.Header, "Content-Length")
	}

	return seen
}

// normal is a request in a form in which two can be compared: names in order, values of one name in theirs, and without what is made up for each.
func (r received) normal() []string {
	lines := slices.DeleteFunc(slices.Clone(r.header), func(line string) bool {
		name, value, _ := strings.Cut(line, ": ")

		return name == "x-pilotlight-via" || name == "trailer" || name == "host" && !strings.Contains(value, "models") || (name == "x-request-id" && value != "mine")
	})
	slices.SortStableFunc(lines, func(a, b string) int {
		nameA, _, _ := strings.Cut(a, ": ")
		nameB, _, _ := strings.Cut(b, ": ")

		return strings.Compare(nameA, nameB)
	})
	trailer := slices.Sorted(slices.Values(r.trailer))

	return append(append([]string{r.method + " " + r.target}, lines...), append(trailer, r.body)...)
}

func TestBothTransportsDoTheSame(t *testing.T) {
	t.Parallel()
	list := rows()
	known := map[string]bool{}
	for _, r := range list {
		known[r.name] = true
	}
	for name := range deviations {
		if !known[name] {
			t.Errorf("there is no row %q that could deviate", name)
		}
	}
	for _, r := range list {
		for _, h2 := range []bool{false, true} {
			t.Run(r.name+" "+protocolName(h2), func(t *testing.T) {
				t.Parallel()
				standard, direct := r.run(t, Standard, h2), r.run(t, Direct, h2)
				diff := cmp.Diff(standard, direct)
				reason, may := deviations[r.name]
				switch {
				case diff == "":
				case may:
					t.Logf("known: %s:\n%.2000s", reason, diff)
				default:
					t.Errorf("standard (-) and direct (+) differ:\n%.3000s", diff)
				}
			})
		}
	}
}
