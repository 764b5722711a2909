package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
	w.Header().Set("X-Encoding", strings.Join(r.TransferEncoding, ","))
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}

func TestC16HoldEndsByEachRequestsOwnArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, end := memoryRig(t, echo, func(_ *Settings, g *GateSettings) {
			g.Hold.MaxWait.Start = units.Duration(20 * time.Second)
			g.RetryAfter = func() time.Duration { return 1500 * time.Millisecond }
		})
		defer end()
		var wait sync.WaitGroup
		for i := range 50 {
			wait.Go(func() {
				begun := time.Now()
				got := r.send(t.Context(), http.MethodPost, "/", strings.NewReader("x"))
				if took := time.Since(begun); took != 20*time.Second || got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "2" {
					t.Errorf("request %d: %s, %+v", i, took, got)
				}
				var said map[string]any
				if err := json.Unmarshal([]byte(got.body), &said); err != nil || said["reason"] != "hold_timeout" || said["request_id"] != got.header.Get("X-Request-ID") {
					t.Errorf("request %d: %v, %s", i, err, got.body)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		wait.Wait()
		synctest.Wait()
		if !r.quiet() {
			t.Errorf("left behind: %+v", r.gate.Snapshot())
		}
	})
}

func TestC24HeldBodyArrivesByteForByte(t *testing.T) {
	t.Parallel()
	perTransport(t, heldBodyArrivesByteForByte)
}

func heldBodyArrivesByteForByte(t *testing.T, transport Transport) {
	t.Parallel()
	binary := make([]byte, 300<<10)
	rand.Read(binary)
	copy(binary, `{"inputs":[]}`+"\x00}")
	tests := []struct {
		name    string
		size    int
		chunked bool
	}{
		{"one byte", 1, false},
		{"a tensor", 300 << 10, false},
		{"chunked, smaller than the read-ahead", 1000, true},
		{"chunked, as large as the read-ahead", 64 << 10, true},
		{"chunked, larger", 300 << 10, true},
		{"no body", 0, false},
	}
	for _, test := range tests {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprint(test.name, " h2 ", h2), func(t *testing.T) {
				t.Parallel()
				r := socketRig(t, httpBackend(t, func(w http.ResponseWriter, r *http.Request) {
					if got := r.Header.Get("Inference-Header-Content-Length"); got != "187" {
						w.WriteHeader(http.StatusTeapot)
					}
					echo(w, r)
				}), over(transport))
				if h2 {
					r.useHTTP2(t)
				}
				var body io.Reader = bytes.NewReader(binary[:test.size])
				if test.chunked {
					body = io.MultiReader(body)
				}
				request, _ := http.NewRequest(http.MethodPost, "http://"+r.front+"/v2/models/m/infer", body)
				request.Header.Set("Inference-Header-Content-Length", "187")
				go func() {
					until(t, "held", r.held(1))
					if !test.chunked {
						until(t, "the body is read ahead", func() bool { return r.gate.Snapshot().HeldBytes == int64(test.size) })
					}
					open(r.gate)
				}()
				res, err := r.client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				defer shut(res.Body)
				got, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode != http.StatusOK || !bytes.Equal(got, binary[:test.size]) {
					t.Errorf("%d, %d bytes, %v", res.StatusCode, len(got), err)
				}
				wantLength, wantEncoding := fmt.Sprint(test.size), ""
				if test.chunked {
					wantLength, wantEncoding = "-1", "chunked"
				}
				if length, encoding := res.Header.Get("X-Length"), res.Header.Get("X-Encoding"); length != wantLength || encoding != wantEncoding {
					t.Errorf("the backend got length %s, encoding %q", length, encoding)
				}
				until(t, "quiet", r.quiet)
			})
		}
	}
}

// useHTTP2 makes the client speak h2c.
func (r *rig) useHTTP2(t *testing.T) {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	r.client.Transport = transport
}

func TestHeldBodiesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, end := memoryRig(t, echo, func(_ *Settings, g *GateSettings) {
			g.Hold.MaxBody, g.Hold.MaxStreamBody, g.Memory, g.Hold.MaxRequests = 1000, 700, 1500, 3
		})
		defer end()
		var wait sync.WaitGroup
		send := func(body io.Reader, status int, reason string) {
			wait.Go(func() {
				got := r.send(t.Context(), http.MethodPost, "/", body)
				if got.status != status || (reason != "" && !strings.Contains(got.body, reason)) {
					t.Errorf("got %+v, want %d %s", got, status, reason)
				}
			})
			synctest.Wait()
		}
		send(strings.NewReader(strings.Repeat("x", 1001)), http.StatusRequestEntityTooLarge, "body_too_large")
		send(strings.NewReader(strings.Repeat("x", 1000)), http.StatusOK, "")
		send(strings.NewReader(strings.Repeat("x", 501)), http.StatusServiceUnavailable, "hold_full")
		if s := r.gate.Snapshot(); s.Held != 1 || s.HeldBytes != 1000 {
			t.Errorf("%+v", s)
		}
		// What is left of the memory, and then none, bounds how much is read ahead of a body of unknown length; nobody is refused for that.
		send(io.MultiReader(strings.NewReader(strings.Repeat("y", 100_000))), http.StatusOK, "")
		send(io.MultiReader(strings.NewReader(strings.Repeat("z", 100_000))), http.StatusOK, "")
		if s := r.gate.Snapshot(); s.Held != 3 || s.HeldBytes > 1500 {
			t.Errorf("%+v", s)
		}
		send(nil, http.StatusServiceUnavailable, "hold_full")
		open(r.gate)
		wait.Wait()
		if !r.quiet() {
			t.Errorf("left behind: %+v", r.gate.Snapshot())
		}
	})
}

func TestC06ClientLeavesWhileHeld(t *testing.T) {
	t.Parallel()
	perTransport(t, clientLeavesWhileHeld)
}

func clientLeavesWhileHeld(t *testing.T, transport Transport) {
	t.Parallel()
	tests := []struct{ name, request string }{
		{"no body", "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
		{"whole body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"},
		{"half a body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbo"},
		{"half a chunked body", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"},
	}
	for _, test := range tests {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprint(test.name, " reset ", reset), func(t *testing.T) {
				t.Parallel()
				var reached atomic.Bool
				r := socketRig(t, httpBackend(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) }), over(transport))
				conn, _ := r.raw(t, test.request)
				until(t, "held", r.held(1))
				if reset {
					if tcp, ok := conn.(*net.TCPConn); !ok || tcp.SetLinger(0) != nil {
						t.Fatal("no reset")
					}
				}
				shut(conn)
				until(t, "the place is free", r.quiet)
				if s := r.gate.Snapshot(); s.Outcomes[Gone] != 1 || reached.Load() {
					t.Errorf("%+v, reached %v", s, reached.Load())
				}
			})
		}
	}
}

func TestKeepAliveSurvivesTheHold(t *testing.T) {
	t.Parallel()
	perTransport(t, keepAliveSurvivesTheHold)
}

func keepAliveSurvivesTheHold(t *testing.T, transport Transport) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, echo), over(transport))
	conn, answers := r.raw(t, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na")
	until(t, "held", r.held(1))
	open(r.gate)
	for _, next := range []string{"b", "c", ""} {
		res, err := http.ReadResponse(answers, nil)
		if err != nil || res.StatusCode != http.StatusOK || res.Close {
			t.Fatalf("%v, %v", res, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		if next != "" {
			_, _ = fmt.Fprintf(conn, "POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n%s\r\n0\r\n\r\n", next)
		}
	}
}

func TestExpectContinueIsAnsweredWhileHeld(t *testing.T) {
	t.Parallel()
	perTransport(t, expectContinueIsAnsweredWhileHeld)
}

func expectContinueIsAnsweredWhileHeld(t *testing.T, transport Transport) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, echo), over(transport))
	conn, answers := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
	if head, err := readHead(answers); err != nil || !strings.HasPrefix(head, "HTTP/1.1 100") {
		t.Fatalf("%q, %v", head, err)
	}
	_, _ = io.WriteString(conn, "body")
	until(t, "the body is held", func() bool { return r.gate.Snapshot().HeldBytes == 4 })
	open(r.gate)
	for {
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusContinue {
			continue // the backend says so too
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "body" {
			t.Errorf("%q, %v", body, err)
		}

		return
	}
}

func TestRefusedUploadStillGetsItsAnswer(t *testing.T) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, echo), nil)
	for range 20 {
		conn, answers := r.raw(t, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\n\r\n")
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = conn.Write(make([]byte, 20_000_000))
		}()
		<-sent // the whole upload, before a look at the answer
		res, err := http.ReadResponse(answers, nil)
		if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatalf("%v, %v", res, err)
		}
		shut(conn)
	}
	until(t, "quiet", r.quiet)
}

// TestHeldHTTP2BodiesDoNotStallTheirNeighbours is fact 7: forty held uploads of 60 kB on one connection, and then a small request on it.
func TestHeldHTTP2BodiesDoNotStallTheirNeighbours(t *testing.T) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, echo), func(s *Settings, _ *GateSettings) {
		s.LivePath = func(path string) bool { return path == "/live" }
	})
	r.useHTTP2(t)
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			var body io.Reader = strings.NewReader(strings.Repeat("x", 60_000))
			if i%2 == 0 {
				body = io.MultiReader(body, strings.NewReader(strings.Repeat("y", 100_000)))
			}
			if got := r.send(t.Context(), http.MethodPost, "/", body); got.status != http.StatusOK {
				t.Errorf("%+v", got)
			}
		})
	}
	until(t, "held", r.held(40))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if got := r.send(ctx, http.MethodPost, "/live", strings.NewReader(strings.Repeat("z", 100))); got.status != http.StatusOK {
		t.Errorf("the neighbour got %+v", got)
	}
	open(r.gate)
	wait.Wait()
	until(t, "quiet", r.quiet)
}

// TestC17WindowsOfHeldHTTP2BodiesAreInTheBudget holds as many uploads of unknown length on one connection as there is memory for, what flow control lets in beyond the read-ahead included.
func TestC17WindowsOfHeldHTTP2BodiesAreInTheBudget(t *testing.T) {
	t.Parallel()
	const memory, sent = 10 * (64<<10 + streamWindow), 30
	r := socketRig(t, httpBackend(t, echo), func(s *Settings, g *GateSettings) {
		s.LivePath = func(path string) bool { return path == "/live" }
		g.Memory = memory
	})
	r.useHTTP2(t)
	if got := r.send(t.Context(), http.MethodGet, "/live", nil); got.status != http.StatusOK { // and there is one connection
		t.Fatalf("%+v", got)
	}
	var wait sync.WaitGroup
	var delivered, full atomic.Int64
	for i := range sent {
		wait.Go(func() {
			body := strings.Repeat(fmt.Sprintf("%07d ", i), 128<<10)
			switch got := r.send(t.Context(), http.MethodPost, "/", io.MultiReader(strings.NewReader(body))); {
			case got.status == http.StatusOK && got.body == body:
				delivered.Add(1)
			case got.status == http.StatusServiceUnavailable && strings.Contains(got.body, `"hold_full"`):
				full.Add(1)
			default:
				t.Errorf("upload %d: %d, %d bytes, %v", i, got.status, len(got.body), got.err)
			}
		})
	}
	until(t, "no more are held than their windows fit", func() bool {
		s := r.gate.Snapshot()

		return s.Held > 0 && s.Held <= memory/streamWindow && s.HeldBytes <= memory && int64(s.Held)+full.Load() == sent
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if got := r.send(ctx, http.MethodPost, "/live", strings.NewReader(strings.Repeat("z", 1<<20))); got.status != http.StatusOK {
		t.Errorf("the neighbour got %d, %v", got.status, got.err)
	}
	open(r.gate)
	wait.Wait()
	if delivered.Load() == 0 {
		t.Error("none was held")
	}
	until(t, "quiet", r.quiet)
}

func TestReadyPathsAreAnsweredTruthfullyAndLivePathsPass(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	r := socketRig(t, httpBackend(t, echo), func(s *Settings, _ *GateSettings) {
		s.ReadyPaths = func(path string) (func() bool, bool) { return ready.Load, path == "/v2/health/ready" }
		s.LivePath = func(path string) bool { return path == "/metrics" }
	})
	get := func(path string) int { return r.send(t.Context(), http.MethodGet, path, nil).status }
	if got := get("/v2/health/ready"); got != http.StatusServiceUnavailable {
		t.Errorf("not ready: %d", got)
	}
	ready.Store(true)
	if got := get("/v2/health/ready"); got != http.StatusOK {
		t.Errorf("ready: %d", got)
	}
	if got := get("/metrics"); got != http.StatusOK {
		t.Errorf("metrics: %d", got)
	}
	_, answers := r.raw(t, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n")
	if line, _ := answers.ReadString('\n'); !strings.Contains(line, " 405 ") {
		t.Errorf("CONNECT: %q", line)
	}
}

func TestLivePathNeverWaits(t *testing.T) {
	t.Parallel()
	r := socketRig(t, tcp("127.0.0.1:1"), func(s *Settings, _ *GateSettings) {
		s.LivePath = func(string) bool { return true }
		s.Lost = func(error) { t.Error("a look at liveness is no evidence") }
	})
	if got := r.send(t.Context(), http.MethodGet, "/live", nil); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "unreachable") || got.header.Get("X-Request-ID") == "" {
		t.Errorf("%+v", got)
	}
}

func TestDrainedRequestsMayComeOnNewConnectionsOnly(t *testing.T) {
	t.Parallel()
	r := socketRig(t, httpBackend(t, echo), nil)
	open(r.gate)
	r.handler.CloseConnections()
	_, answers := r.raw(t, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(answers), nil)
	if err != nil || res.StatusCode != http.StatusOK || !res.Close {
		t.Errorf("%v, %v", res, err)
	}
	r.useHTTP2(t)
	for range 3 { // GOAWAY: each one still succeeds
		if got := r.send(t.Context(), http.MethodGet, "/", nil); got.status != http.StatusOK {
			t.Errorf("%+v", got)
		}
	}
}

// TestC22HeldRequestsAreLetGoGently has a backend that works on 4 requests at a time, refuses those beyond, and would die of more than 16.
func TestC22HeldRequestsAreLetGoGently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var working, most, served atomic.Int64
		r, end := memoryRig(t, func(w http.ResponseWriter, r *http.Request) {
			n := working.Add(1)
			defer working.Add(-1)
			for old := most.Load(); n > old; old = most.Load() {
				if most.CompareAndSwap(old, n) {
					break
				}
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if n > 4 {
				time.Sleep(time.Millisecond)
				w.WriteHeader(http.StatusTooManyRequests)

				return
			}
			time.Sleep(50 * time.Millisecond)
			served.Add(1)
		}, nil)
		defer end()
		var wait sync.WaitGroup
		var failed atomic.Int64
		for range 100 {
			wait.Go(func() {
				if got := r.send(t.Context(), http.MethodPost, "/", strings.NewReader("image")); got.status != http.StatusOK {
					failed.Add(1)
					t.Errorf("%+v", got)
				}
			})
			synctest.Wait()
		}
		open(r.gate)
		var late sync.WaitGroup
		for range 20 {
			late.Go(func() { r.send(t.Context(), http.MethodPost, "/", strings.NewReader("late")) })
			time.Sleep(50 * time.Millisecond)
		}
		wait.Wait()
		late.Wait()
		t.Logf("at most %d at once, %d served", most.Load(), served.Load())
		if most.Load() > 16 || failed.Load() > 0 {
			t.Errorf("%d at once, %d failed", most.Load(), failed.Load())
		}
	})
}
