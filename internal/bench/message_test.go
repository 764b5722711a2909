package main

import (
	"strings"
	"testing"
)

// read feeds text in pieces of a size and returns the bodies, statuses and the first error.
func read(m *message, text string, size int) (bodies []string, statuses []int, err error) {
	var body strings.Builder
	m.body = func(piece []byte) { body.Write(piece) }
	for from := 0; from < len(text); from += size {
		rest := []byte(text[from:min(from+size, len(text))])
		for len(rest) > 0 {
			var done bool
			if rest, done, err = m.feed(rest); err != nil {
				return bodies, statuses, err
			}
			if !done {
				break
			}
			bodies, statuses = append(bodies, body.String()), append(statuses, m.status)
			body.Reset()
			m.reset()
		}
	}

	return bodies, statuses, nil
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		bodies     []string
		status     int
		err        string
	}{
		{name: "length", text: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", bodies: []string{"hello"}, status: 200},
		{name: "any case", text: "HTTP/1.1 200 OK\r\ncontent-LENGTH:5\r\n\r\nhello", bodies: []string{"hello"}, status: 200},
		{name: "empty", text: "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", bodies: []string{""}, status: 503},
		{name: "no content", text: "HTTP/1.1 204 No Content\r\n\r\n", bodies: []string{""}, status: 204},
		{name: "chunk longer than it says", text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello, world\r\n0\r\n\r\n", err: "end of a chunk"},
		{name: "chunks and a trailer", text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\nA: b\r\n\r\n", bodies: []string{"hello, world"}, status: 200},
		{name: "interim first", text: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", bodies: []string{"ok"}, status: 200},
		{name: "two", text: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb", bodies: []string{"a", "b"}, status: 200},
		{name: "unfinished", text: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"},
		{name: "no frame", text: "HTTP/1.1 200 OK\r\n\r\n", err: errFrame.Error()},
		{name: "no HTTP", text: "SSH-2.0-x\r\n\r\n", err: "first line of an answer"},
		{name: "bad length", text: "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", err: "content-length"},
		{name: "bad chunk", text: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", err: "size of a chunk"},
		{name: "endless head", text: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", maxHead), err: errHead.Error()},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 2, 3, 7, 64, 1 << 20} {
				bodies, statuses, err := read(&message{}, test.text, size)
				if test.err != "" {
					if err == nil || !strings.Contains(err.Error(), test.err) {
						t.Errorf("in pieces of %d: got error %v, want %s", size, err, test.err)
					}

					continue
				}
				if err != nil || strings.Join(bodies, "|") != strings.Join(test.bodies, "|") || len(bodies) != len(test.bodies) {
					t.Errorf("in pieces of %d: got %q, %v, want %q", size, bodies, err, test.bodies)
				}
				if len(statuses) > 0 && statuses[0] != test.status {
					t.Errorf("in pieces of %d: got status %d, want %d", size, statuses[0], test.status)
				}
			}
		})
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 5, 4096} {
		m := &message{request: true}
		request := string(post(1<<10, askBytes(1<<10)))
		for from := 0; from < len(request); from += size {
			_, done, err := m.feed([]byte(request[from:min(from+size, len(request))]))
			if last := from+size >= len(request); err != nil || done != last {
				t.Fatalf("after %d bytes: done %t, error %v", from+size, done, err)
			}
		}
		if string(m.ask) != "bytes=1024" || string(m.target()) != "/v2/models/bench/infer" {
			t.Errorf("got %q of %q", m.ask, m.target())
		}
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	answered := answer("200 OK", "application/octet-stream", make([]byte, 1<<10))
	m := &message{}
	if allocations := testing.AllocsPerRun(100, func() {
		m.reset()
		if _, done, err := m.feed(answered); !done || err != nil {
			t.Fatal(done, err)
		}
	}); allocations != 0 {
		t.Errorf("got %g allocations for an answer, want none", allocations)
	}
}
