package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// largeAnswer is the beginning of a text of which every 8 bytes differ.
func largeAnswer(size int) []byte { return largeText()[:size] }

var largeText = sync.OnceValue(func() []byte {
	text := make([]byte, 16<<20)
	for i := 0; i < len(text); i += 8 {
		binary.LittleEndian.PutUint64(text[i:], uint64(i))
	}

	return text
})

func TestLargeAnswersArriveWhole(t *testing.T) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
		size := 0
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &size)
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = w.Write(largeAnswer(size))
	}), nil)
	passing(r.gate)
	for _, size := range []int{spliceAfter + splicePiece - 1, spliceAfter + splicePiece, spliceAfter + splicePiece + 1, 9_999_999, 16 << 20} {
		for range 2 {
			got := r.send(t.Context(), http.MethodGet, fmt.Sprint("/", size), nil)
			if want := largeAnswer(size); got.err != nil || !bytes.Equal([]byte(got.body), want) {
				t.Errorf("%d bytes: got %d and error %v", size, len(got.body), got.err)
			}
		}
	}
	until(t, "quiet", r.quiet)
	if n := r.handler.direct.Idle(); n != 1 {
		t.Errorf("%d connections are kept after answers one by one", n)
	}
}

// TestSplicedAnswerIsWatched has answers that stop after 4 MiB, for one side's fault or the other's.
func TestSplicedAnswerIsWatched(t *testing.T) {
	t.Parallel()
	const sent, size = 4 << 20, 64 << 20
	short, long := units.Duration(300*time.Millisecond), units.Duration(time.Minute)
	tests := []struct {
		name    string
		limits  func(*TimeoutsConfig)
		backend func(conn net.Conn)
		reads   bool // the client
		whole   bool
		verdict circuit.Tally
		suspect bool
	}{
		{
			name: "backend pauses longer than a client may", reads: true, whole: true, verdict: circuit.Tally{Good: 1},
			limits: func(t *TimeoutsConfig) { t.WriteStall, t.StreamIdle = short, long },
			backend: func(conn net.Conn) {
				time.Sleep(3 * short.Std()) // the pause is what is tested; it ends just when the limit is looked at
				_, _ = conn.Write(make([]byte, size-sent))
			},
		},
		{
			name: "backend falls silent", reads: true, verdict: circuit.Tally{Bad: 1},
			limits:  func(t *TimeoutsConfig) { t.WriteStall, t.StreamIdle = long, short },
			backend: func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) },
		},
		{
			name: "client reads nothing", verdict: circuit.Tally{Good: 1},
			limits:  func(t *TimeoutsConfig) { t.WriteStall, t.StreamIdle = short, short },
			backend: func(conn net.Conn) { _, _ = conn.Write(make([]byte, size-sent)) },
		},
		{
			name: "backend breaks off", reads: true, verdict: circuit.Tally{Bad: 1}, suspect: true,
			limits:  func(t *TimeoutsConfig) { t.WriteStall, t.StreamIdle = long, long },
			backend: func(net.Conn) {},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			backend := rawBackend(t, func(_ int, conn net.Conn, _ string, _ *bufio.Reader) {
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
				_, _ = conn.Write(make([]byte, sent))
				tt.backend(conn)
			})
			_, verdict, suspected := judged(t, backend, func(s *Settings, _ *GateSettings) { tt.limits(&s.Timeouts) }, func(r *rig) answer {
				conn, reader := r.raw(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				defer shut(conn)
				if !tt.reads {
					if _, err := reader.Peek(1); err != nil {
						t.Fatal(err)
					}
					until(t, "cut off", r.quiet)

					return answer{}
				}
				res, err := http.ReadResponse(reader, nil)
				if err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, res.Body)
				if whole := err == nil && n == size; whole != tt.whole {
					t.Errorf("got %d bytes and error %v", n, err)
				}
				if !tt.whole && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("got error %v", err)
				}

				return answer{}
			})
			if verdict != tt.verdict || (suspected > 0) != tt.suspect {
				t.Errorf("verdicts %+v, suspected %d times, want %+v and %v", verdict, suspected, tt.verdict, tt.suspect)
			}
		})
	}
}
