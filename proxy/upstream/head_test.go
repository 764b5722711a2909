package upstream

import (
	"net/http"
	"strings"
	"testing"
)

func TestHeadsAreWrittenAsTheyCame(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		request Request
		want    string
	}{
		{
			name:    "header in the order of its names, duplicates in theirs",
			request: Request{Method: "GET", Target: "/a%2Fb?x=1;2&&", Host: "h:80", Header: http.Header{"B": {"2", "1"}, "A": {"x"}}},
			want:    "GET /a%2Fb?x=1;2&& HTTP/1.1\nHost: h:80\nA: x\nB: 2\nB: 1\n",
		},
		{
			name: "what is for one hop stays",
			request: Request{Method: "GET", Target: "/", Host: "h", Header: http.Header{
				"Connection": {"keep-alive, x-secret", "Other"}, "X-Secret": {"1"}, "Other": {"2"}, "Keep-Alive": {"timeout=5"}, "Te": {"gzip, trailers"}, "Transfer-Encoding": {"chunked"},
				"Upgrade": {"h2c"}, "Http2-Settings": {"AAMAAABk"}, "Proxy-Authorization": {"basic"}, "Trailer": {"X"}, "Content-Length": {"5"}, "Host": {"evil"}, "Kept": {"3"},
			}},
			want: "GET / HTTP/1.1\nHost: h\nKept: 3\nTe: trailers\n",
		},
		{
			name:    "hop headers in any spelling",
			request: Request{Method: "GET", Target: "/", Host: "h", Header: http.Header{"transfer-encoding": {"chunked"}, "CONTENT-LENGTH": {"3"}}},
			want:    "GET / HTTP/1.1\nHost: h\n",
		},
		{
			name:    "fields take the place of the header's",
			request: Request{Method: "GET", Target: "/", Host: "h", Header: http.Header{"A": {"1"}, "B": {"2"}, "C": {"5"}}, Fields: []Field{{"A", "3"}, {"A", "4"}, {"C", ""}}},
			want:    "GET / HTTP/1.1\nHost: h\nB: 2\nA: 3\nA: 4\n",
		},
		{name: "POST without a body", request: Request{Method: "POST", Target: "/", Host: "h"}, want: "POST / HTTP/1.1\nHost: h\nContent-Length: 0\n"},
		{
			name:    "known length",
			request: Request{Method: "POST", Target: "/", Host: "h", Ready: true, Body: strings.NewReader("abc"), Length: 3},
			want:    "POST / HTTP/1.1\nHost: h\nContent-Length: 3\n",
		},
		{
			name:    "unknown length, with a trailer",
			request: Request{Method: "POST", Target: "/", Host: "h", Ready: true, Body: strings.NewReader("abc"), Length: -1, Trailer: http.Header{"X-T": nil}},
			want:    "POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\nTrailer: X-T\n",
		},
		{
			name:    "expectation",
			request: Request{Method: "POST", Target: "/", Host: "h", Ready: true, Body: strings.NewReader("abc"), Length: 3, Expect: true, Header: http.Header{"Expect": {"other"}}},
			want:    "POST / HTTP/1.1\nHost: h\nContent-Length: 3\nExpect: 100-continue\n",
		},
		{
			name:    "upgrade",
			request: Request{Method: "GET", Target: "/", Host: "h", Upgrade: "websocket", Header: http.Header{"Sec-Websocket-Key": {"k"}}},
			want:    "GET / HTTP/1.1\nHost: h\nConnection: Upgrade\nUpgrade: websocket\nSec-Websocket-Key: k\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			head, err := appendHead(nil, &tt.request)
			if want := strings.ReplaceAll(tt.want+"\n", "\n", "\r\n"); err != nil || string(head) != want {
				t.Errorf("got %q and error %v, want %q", head, err, want)
			}
		})
	}
}

// TestWhatWouldReadDifferentlyIsNotSent has a backend that fails the test when anything comes.
func TestWhatWouldReadDifferentlyIsNotSent(t *testing.T) {
	t.Parallel()
	transport, heads := script(t)
	tests := []struct {
		name    string
		request Request
	}{
		{"method with a request line", Request{Method: "GET /unload HTTP/1.1\r\nHost: h\r\n\r\nGET"}},
		{"method with a space", Request{Method: "GET /unload"}},
		{"target with a space", Request{Target: "/a HTTP/1.1"}},
		{"target with a line end", Request{Target: "/a\r\nX: y"}},
		{"target with a tab", Request{Target: "/a\tb"}},
		{"target with a byte above ASCII", Request{Target: "/\xc3\xa4"}},
		{"host with a line end", Request{Host: "h\r\nX: y"}},
		{"host with a space", Request{Host: "h x"}},
		{"host with a path", Request{Host: "h/x"}},
		{"host with a user", Request{Host: "u@h"}},
		{"name with a space", Request{Header: http.Header{"A B": {"x"}}}},
		{"name with a colon", Request{Header: http.Header{"A:B": {"x"}}}},
		{"empty name", Request{Header: http.Header{"": {"x"}}}},
		{"value with a line end", Request{Header: http.Header{"A": {"x\r\nB: y"}}}},
		{"value with a carriage return", Request{Header: http.Header{"A": {"x\ry"}}}},
		{"value with NUL", Request{Header: http.Header{"A": {"x\x00y"}}}},
		{"field with a line end", Request{Fields: []Field{{"A", "x\ny"}}}},
		{"trailer that frames", Request{Ready: true, Body: strings.NewReader("x"), Length: -1, Trailer: http.Header{"Content-Length": {"1"}}}},
		{"upgrade with a line end", Request{Upgrade: "x\r\nA: b"}},
		{"upgrade with a body", Request{Upgrade: "x", Ready: true, Body: strings.NewReader("x"), Length: 1}},
	}
	for _, tt := range tests {
		if got := do(transport, &tt.request); reasonOf(got.err) != "unfit" {
			t.Errorf("%s: got status %d and error %v, want it unfit", tt.name, got.status, got.err)
		}
	}
	if sent := heads(); len(sent) > 0 {
		t.Errorf("the backend got %q", sent)
	}
}
