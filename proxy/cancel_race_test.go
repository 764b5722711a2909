package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// racesVariable names the environment variable with the number of races to run, for who wants more than a usual run has time for.
const racesVariable = "PILOTLIGHT_CANCEL_RACES"

func races(t *testing.T, transport Transport) int {
	t.Helper()
	text := os.Getenv(racesVariable)
	switch {
	case text == "" && transport == Standard:
		return 1000 // it is not ours to prove
	case text == "":
		return 10_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("read %s: %v", racesVariable, err)
	}

	return n
}

// direct asks the handler without a client's connection, so that thousands of exchanges cost little but what lies behind it. An exchange that ends without an answer has none.
func (r *rig) direct(ctx context.Context, method, target, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	request.RemoteAddr = "127.0.0.1:1"
	got := httptest.NewRecorder()
	defer func() {
		if cause := recover(); cause != nil && cause != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			panic(cause)
		}
	}()
	r.handler.ServeHTTP(got, request)

	return got
}

// TestCancelledExchangeLeavesNothingToTheNext has users who leave at about the moment at which their answer ends, and others who get their connections afterwards.
func TestCancelledExchangeLeavesNothingToTheNext(t *testing.T) {
	settles(t)
	perTransport(t, func(t *testing.T, transport Transport) {
		backend := record(t, own)
		dialled := &dials{}
		r := socketRig(t, backend.address(), func(s *Settings, _ *GateSettings) {
			s.Transport, s.DialContext = transport, dialled.dial
			s.ConnectTimeout = 10 * time.Second // thousands of connections in a row
		})
		r.handler.patrol.blink = 0 // or exchanges as short as these would end before anybody looks
		open(r.gate)
		begun := time.Now()
		for range 100 {
			r.direct(t.Context(), http.MethodGet, "/warm", "")
		}
		usual := time.Since(begun) / 100
		var wait sync.WaitGroup
		var whole, cut atomic.Int64
		left := races(t, transport)
		for user := range 2 {
			wait.Go(func() {
				for i := range left / 2 {
					ctx, leave := context.WithCancel(t.Context())
					timer := time.AfterFunc(time.Duration(rand.Int64N(int64(2*usual))), leave)
					target := fmt.Sprint("/leaves/", user, "/", i)
					if got := r.direct(ctx, http.MethodPost, target, "prompt"); got != nil && got.Code == http.StatusOK && got.Body.String() == "own "+target {
						whole.Add(1)
					} else {
						cut.Add(1)
					}
					timer.Stop()
					leave()
					target = fmt.Sprint("/stays/", user, "/", i)
					if got := r.direct(t.Context(), http.MethodPost, target, "prompt"); got == nil || got.Code != http.StatusOK || got.Body.String() != "own "+target {
						t.Errorf("%s got %+v", target, got)

						return
					}
				}
			})
		}
		wait.Wait()
		// A race that one side always wins is none.
		if n := int64(left); whole.Load() < n/100 || cut.Load() < n/100 {
			t.Errorf("%d answers were whole and %d cut short", whole.Load(), cut.Load())
		}
		t.Logf("%d answers whole, %d cut short, %d connections, an exchange takes %s", whole.Load(), cut.Load(), dialled.n.Load(), usual)
		until(t, "quiet", r.quiet)
	})
}

// TestCancelledStreamLeavesNothingToTheNext does the same in the middle of a body that the backend has written as a whole.
func TestCancelledStreamLeavesNothingToTheNext(t *testing.T) {
	settles(t)
	perTransport(t, func(t *testing.T, transport Transport) {
		backend := record(t, func(conn net.Conn, request received) bool {
			if !strings.HasPrefix(request.target, "/leaves") {
				return own(conn, request)
			}
			_, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s%s", strings.Repeat(tokens, 100), "0\r\n\r\n"+stolen)

			return err == nil
		})
		r := socketRig(t, backend.address(), func(s *Settings, _ *GateSettings) { s.Transport, s.ConnectTimeout = transport, 10*time.Second })
		open(r.gate)
		for i := range races(t, transport) / 20 {
			ctx, leave := context.WithCancel(t.Context())
			timer := time.AfterFunc(time.Duration(rand.Int64N(int64(time.Millisecond/2))), leave)
			r.direct(ctx, http.MethodPost, "/leaves", "prompt")
			timer.Stop()
			leave()
			target := fmt.Sprint("/stays/", i)
			if got := r.direct(t.Context(), http.MethodPost, target, "prompt"); got == nil || got.Code != http.StatusOK || got.Body.String() != "own "+target {
				if transport == Standard {
					t.Logf("known: %s: %s got %+v", raced, target, got)

					return
				}
				t.Fatalf("%s got %+v", target, got)
			}
		}
		until(t, "quiet", r.quiet)
	})
}
