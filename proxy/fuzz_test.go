package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
)

// fuzzRig is a proxy on an in-memory net that many inputs go through, one after the other. Each has a backend of its own.
type fuzzRig struct {
	handler *Handler
	front   *memnet.Listener
	backend *memnet.Listener
	log     *noted
}

func newFuzzRig(f *testing.F, transport Transport, denied func(path string) bool) *fuzzRig {
	f.Helper()
	r := &fuzzRig{front: memnet.Listen(), log: &noted{}}
	settings := defaultSettings()
	settings.Backend, settings.Transport, settings.Denied, settings.Logger = tcp("backend:80"), transport, denied, slog.New(r.log)
	settings.Timeouts.FirstByte, settings.Timeouts.StreamIdle = 3e9, 3e9 // a wait for the backend is a fault here: it answers at once
	settings.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return r.backend.DialContext(ctx, network, address)
	}
	settings.Gate = NewGate(GateSettings{Hold: DefaultHold(), Memory: 64 << 20, Concurrency: DefaultConcurrency()})
	r.handler = NewHandler(settings)
	open(settings.Gate)
	server := r.handler.Server()
	go func() { _ = server.Serve(r.front) }()
	f.Cleanup(func() { shut(server); r.handler.Close() })

	return r
}

// begin gives the next input a backend of its own.
func (r *fuzzRig) begin(script script) *recorder {
	r.backend = memnet.Listen()

	return recordOn(r.backend, script)
}

// end returns what arrived, once nothing more can. No input may make the proxy shout.
func (r *fuzzRig) end(t *testing.T, recorder *recorder) []received {
	t.Helper()
	arrived := recorder.finish(t, r.handler)
	for _, request := range arrived {
		if request.fault != nil && !errors.Is(request.fault, errCutShort) {
			t.Errorf("arrived %s with a fault: %v", request, request.fault)
		}
	}
	if lines := r.log.loud(); lines != nil {
		t.Errorf("the log is loud: %q", lines)
	}
	r.log.forget()

	return arrived
}

// client sends text on a connection of its own and returns all that comes back. Where it says no more after it, it may be taken for one that has left.
func (r *fuzzRig) client(t *testing.T, text []byte, noMore bool) []byte {
	t.Helper()
	conn, err := r.front.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer shut(conn)
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	_, _ = conn.Write(text)
	if half, ok := conn.(interface{ CloseWrite() error }); ok && noMore {
		_ = half.CloseWrite()
	}
	answer, err := io.ReadAll(conn)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		t.Fatalf("no end of the answer: %.200q", answer)
	}

	return answer
}

// understood is how net/http reads text: which requests it holds, and whether the last one's body is whole.
func understood(text []byte) (requests []received) {
	reader := bufio.NewReader(bytes.NewReader(text))
	for {
		if last := len(requests) - 1; last >= 0 && requests[last].method == http.MethodPost {
			// net/http's server forgives old clients who end the body of a POST with line ends that do not count.
			begin, _ := reader.Peek(4)
			_, _ = reader.Discard(len(begin) - len(bytes.TrimLeft(begin, "\r\n")))
		}
		request, err := http.ReadRequest(reader)
		if err != nil {
			return requests
		}
		body, err := io.ReadAll(request.Body)
		_, target, _ := strings.Cut(request.RequestURI, "://")
		if target == "" || strings.HasPrefix(request.RequestURI, "/") {
			target = request.RequestURI
		} else if at := strings.IndexAny(target, "/?"); at < 0 {
			target = "/"
		} else if target = target[at:]; target[0] == '?' {
			target = "/" + target
		}
		requests = append(requests, received{method: request.Method, target: target, body: string(body), fault: err})
		if err != nil {
			return requests
		}
	}
}

// FuzzRequest sends bytes to the data port. What arrives at the backend must be some of the requests that net/http sees in them, in their order, and with their bytes:
// never two for one, never one that only begins in the middle of another.
func FuzzRequest(f *testing.F) {
	for _, test := range hostile1 {
		f.Add([]byte(test.bytes + marker))
	}
	for _, r := range rows() {
		if len(r.call.body) < 1000 {
			f.Add([]byte(r.call.http1()))
		}
	}
	r := newFuzzRig(f, Direct, nil)
	f.Fuzz(func(t *testing.T, text []byte) {
		recorder := r.begin(own)
		r.client(t, text, true)
		sent := understood(text)
		for _, request := range r.end(t, recorder) {
			for {
				if len(sent) == 0 {
					t.Fatalf("arrived %+v, which was not sent", request)
				}
				next := sent[0]
				sent = sent[1:]
				if request.method == next.method && request.target == next.target && (request.fault != nil || (next.fault == nil && request.body == next.body)) {
					break
				}
				if request.fault != nil && request.method == "" {
					break // cut off in its first line
				}
			}
		}
	})
}

// FuzzAnswer has a backend that answers with bytes. The next request must get its own answer, on whatever connection.
func FuzzAnswer(f *testing.F) {
	for _, test := range hostileAnswers {
		if len(test.bytes) < 10_000 {
			f.Add([]byte(test.bytes), test.method == http.MethodHead)
		}
	}
	for _, r := range rows() {
		if r.answer != "" && len(r.answer) < 10_000 {
			f.Add([]byte(r.answer), false)
		}
	}
	r := newFuzzRig(f, Direct, nil)
	f.Fuzz(func(t *testing.T, text []byte, head bool) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		whole := complete(text, method)
		recorder := r.begin(func(conn net.Conn, request received) bool {
			if request.target != "/fuzzed" {
				return own(conn, request)
			}
			_, err := conn.Write(text)

			return err == nil && whole
		})
		r.client(t, []byte(method+" /fuzzed HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), false)
		for i := range 2 {
			next := fmt.Sprint("/next/", i)
			answer := r.client(t, []byte("GET "+next+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), false)
			if !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 OK\r\n")) || !bytes.HasSuffix(answer, []byte("\r\n\r\nown "+next)) {
				t.Errorf("%s got %q", next, answer)
			}
		}
		r.end(t, recorder)
	})
}

// complete says whether text begins with an answer that ends by itself, so that a backend may leave its connection open after it.
func complete(text []byte, method string) bool {
	reader := bufio.NewReader(bytes.NewReader(text))
	for {
		res, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil || res.StatusCode == http.StatusSwitchingProtocols {
			return false
		}
		if res.StatusCode >= 100 && res.StatusCode < 200 {
			continue
		}
		if res.Close {
			return false // its end is the connection's
		}
		_, err = io.Copy(io.Discard, res.Body)

		return err == nil
	}
}
