package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// problemOf reads an answer of our own.
func problemOf(t *testing.T, res *http.Response) (reason, detail string) {
	t.Helper()
	defer shut(res.Body)
	var said struct {
		Reason string `json:"reason"`
		Detail string `json:"detail"`
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("the answer %d is %q, not ours", res.StatusCode, got)

		return "", ""
	}
	if err := json.NewDecoder(res.Body).Decode(&said); err != nil {
		t.Error(err)
	}

	return said.Reason, said.Detail
}

// overH2C is a client that speaks HTTP/2 from the first byte.
func overH2C(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: &http.Protocols{}, DisableCompression: true}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)

	return &http.Client{Transport: transport}
}

func TestHeadsAreLimitedInNumberAndSize(t *testing.T) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, func(http.ResponseWriter, *http.Request) {}), func(s *Settings, _ *GateSettings) {
		s.Limits.Headers, s.Limits.HeaderBytes = 20, 8<<10
	})
	open(r.gate)
	for protocol, client := range map[string]*http.Client{"HTTP/1.1": r.client, "HTTP/2.0": overH2C(t)} {
		send := func(lines, bytes int) *http.Response {
			t.Helper()
			request, err := http.NewRequest(http.MethodGet, "http://"+r.front+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header["User-Agent"] = []string{"test"} // or the client adds its own
			for i := range lines - 1 {
				request.Header.Add("X-Many", fmt.Sprint(i))
			}
			if bytes > 0 {
				request.RequestURI = "/"
				_, have := headSize(request)
				request.RequestURI = ""
				request.Header.Set("X-Long", strings.Repeat("x", bytes-int(have)-len(r.front)-len("X-Long: \r\n")+len(request.Host)))
			}
			res, err := client.Do(request)
			if err != nil && protocol == "HTTP/2.0" && strings.Contains(err.Error(), "larger than peer's advertised limit") {
				return nil // it was told, and does not even try
			}
			if err != nil {
				t.Fatal(protocol, lines, bytes, err)
			}
			if res.Proto != protocol {
				t.Fatalf("%s spoken instead of %s", res.Proto, protocol)
			}

			return res
		}
		for _, fits := range []*http.Response{send(20, 0), send(1, 8<<10), send(19, 8<<10)} {
			if shut(fits.Body); fits.StatusCode != http.StatusOK {
				t.Errorf("%s: what fits is answered by %d", protocol, fits.StatusCode)
			}
		}
		many, long := send(21, 0), send(1, 8<<10+1)
		for want, res := range map[[2]string]*http.Response{
			{"too_many_headers", "limits.headers is 20"}:      many,
			{"head_too_large", "limits.header_bytes is 8KiB"}: long,
		} {
			if reason, detail := problemOf(t, res); res.StatusCode != http.StatusRequestHeaderFieldsTooLarge || [2]string{reason, detail} != want {
				t.Errorf("%s: got %d %s %s, want 431 %v", protocol, res.StatusCode, reason, detail, want)
			}
		}
		// Far beyond it net/http reads no further and answers by itself.
		far := send(1, 64<<10)
		if protocol == "HTTP/2.0" {
			if far != nil {
				t.Errorf("a client of HTTP/2 was not told the limit, got %d", far.StatusCode)
			}

			continue
		}
		if shut(far.Body); far.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: a huge head is answered by %d", protocol, far.StatusCode)
		}
	}
}

func TestGRPCHeadsAreLimited(t *testing.T) {
	t.Parallel()
	r := socketRig(t, grpcBackend(t), func(s *Settings, _ *GateSettings) { s.Limits.Headers = 20 })
	open(r.gate)
	conn := r.dialGRPC(t)
	for lines, want := range map[int]codes.Code{10: codes.OK, 20: codes.ResourceExhausted} {
		many := make([]string, lines)
		for i := range many {
			many[i] = "1"
		}
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{"x-many": many})
		question, reply := []byte("q"), []byte(nil)
		s := status.Convert(conn.Invoke(ctx, "/s/m", &question, &reply))
		if s.Code() != want || (want != codes.OK && !strings.Contains(s.Message(), "limits.headers is 20")) {
			t.Errorf("%d lines: %v", lines, s)
		}
	}
}

// TestSlowHeadsAreCutOff has clients that begin and do not go on.
func TestSlowHeadsAreCutOff(t *testing.T) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, func(http.ResponseWriter, *http.Request) {}), func(s *Settings, _ *GateSettings) {
		s.Limits.HeaderTimeout = units.Duration(300 * time.Millisecond)
	})
	open(r.gate)
	for name, text := range map[string]string{
		"nothing":              "",
		"part of a line":       "GET / HT",
		"part of a head":       "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ",
		"part of a preface":    http2.ClientPreface[:20],
		"preface, no SETTINGS": http2.ClientPreface, // after 2 s, whatever the limit: net/http's own
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, answers := r.raw(t, text)
			began := time.Now()
			_, err := io.Copy(io.Discard, answers)
			if took := time.Since(began); err != nil || took > 8*time.Second {
				t.Errorf("after %v: %v", took, err)
			}
			shut(conn)
		})
	}
	// The negative control: who trickles on within the limit, and sends the whole, is answered.
	conn, answers := r.raw(t, "GET / HTTP/1.1\r\n")
	time.AfterFunc(20*time.Millisecond, func() { _, _ = io.WriteString(conn, "Host: h\r\n\r\n") })
	if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Errorf("%q, %v", line, err)
	}
}

// halfHead is an HTTP/2 connection that begins a head and keeps its end to itself.
func halfHead(t *testing.T, conn net.Conn) {
	t.Helper()
	var words, head bytes.Buffer
	words.WriteString(http2.ClientPreface)
	frames := http2.NewFramer(&words, nil)
	encoder := hpack.NewEncoder(&head)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "h"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	_ = frames.WriteSettings()
	_ = frames.WriteSettingsAck()
	_ = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: true})
	if _, err := conn.Write(words.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// frameReader reads what a server says over HTTP/2.
func frameReader(r io.Reader) *http2.Framer { return http2.NewFramer(io.Discard, bufio.NewReader(r)) }
