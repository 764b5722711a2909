package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// listening serves by serve on a free port of the loopback until the test ends.
func listening(t *testing.T, serve func(net.Listener)) string {
	t.Helper()
	listener, err := listenAnywhere(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(listener)
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})

	return listener.Addr().String()
}

func TestEveryKindOfLoadReachesTheOrigin(t *testing.T) {
	t.Parallel()
	o := newOrigin()
	plain := listening(t, func(l net.Listener) { _ = o.serve(t.Context(), l) })
	server := newEchoServer()
	t.Cleanup(server.Stop)
	echoes := listening(t, func(l net.Listener) { _ = server.Serve(l) })
	floor := newFloor(plain, echoes)
	t.Cleanup(func() { _ = floor.Close() })
	proxied := listening(t, func(l net.Listener) { _ = floor.Serve(l) })
	for _, j := range []job{
		{Kind: closedLoop, Size: 1 << 10, Concurrency: 4},
		{Kind: closedLoop, Size: 64 << 10, Concurrency: 2},
		{Kind: openLoop, Size: 1 << 10, Concurrency: 8, Rate: 200},
		{Kind: tokens, Size: 1 << 10, Concurrency: 4, Rate: 50},
		{Kind: grpcUnary, Size: 1 << 10, Concurrency: 2},
		{Kind: grpcStream, Size: 1 << 10, Concurrency: 2},
	} {
		j.Warm, j.For = 20*time.Millisecond, 500*time.Millisecond
		for arm, addresses := range map[string][2]string{"direct": {plain, echoes}, "floor": {proxied, proxied}} {
			t.Run(string(j.Kind)+" "+arm, func(t *testing.T) {
				j := j
				j.Address = addresses[0]
				if strings.HasPrefix(string(j.Kind), "grpc") {
					j.Address = addresses[1]
				}
				began := monotonic()
				got, err := perform(t.Context(), j)
				if err != nil || got.Failed > 0 || got.Done == 0 {
					t.Fatalf("got %+v, %v", got, err)
				}
				if got.Seconds < j.For.Seconds() {
					t.Errorf("measured %g s, want at least %s", got.Seconds, j.For)
				}
				if elapsed := (monotonic() - began).Seconds(); j.Kind == openLoop && float64(got.Done) > j.Rate*elapsed+1 {
					t.Errorf("%d requests in %g s exceed the rate of %g", got.Done, elapsed, j.Rate)
				}
			})
		}
	}
}

// TestAnOpenLoopCountsWaiting has an origin that answers each request 20 ms late on one connection: at 100/s a closed loop would see 20 ms for ever, while
// those who are due wait longer and longer.
func TestAnOpenLoopCountsWaiting(t *testing.T) {
	t.Parallel()
	const late = 20 * time.Millisecond
	slow := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-time.After(late)
		_, _ = w.Write(bytes.Repeat([]byte{'a'}, 1<<10))
	})}
	t.Cleanup(func() { _ = slow.Close() })
	address := listening(t, func(l net.Listener) { _ = slow.Serve(l) })
	j := job{Kind: closedLoop, Address: address, Size: 1 << 10, Concurrency: 1, Rate: 100, For: 1500 * time.Millisecond}
	closed, err := perform(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	j.Kind = openLoop
	open, err := perform(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if open.P99 < 3*closed.P50 {
		t.Errorf("open loop p99 %s, closed loop p50 %s: the time in the queue is left out", open.P99, closed.P50)
	}
}

func TestOtherAnswersAreFailures(t *testing.T) {
	t.Parallel()
	refusing := &http.Server{Handler: http.NotFoundHandler()}
	t.Cleanup(func() { _ = refusing.Close() })
	address := listening(t, func(l net.Listener) { _ = refusing.Serve(l) })
	got, err := perform(t.Context(), job{Kind: closedLoop, Address: address, Size: 1 << 10, Concurrency: 1, For: 50 * time.Millisecond})
	if err != nil || got.Done != 0 || got.Failed == 0 || got.Failure != "answer: expected status 200, got 404" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestALostConnectionIsAnError(t *testing.T) {
	t.Parallel()
	address := listening(t, func(l net.Listener) {
		for {
			connection, err := l.Accept()
			if err != nil {
				return
			}
			_ = connection.Close()
		}
	})
	if got, err := perform(t.Context(), job{Kind: closedLoop, Address: address, Size: 1 << 10, Concurrency: 1, For: time.Second}); err == nil {
		t.Errorf("got %+v", got)
	}
}

func TestJobsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	good := job{Kind: closedLoop, Address: "127.0.0.1:1", Size: 1 << 10, Concurrency: 1, For: time.Second}
	for name, change := range map[string]func(*job){
		"size": func(j *job) { j.Size = 17 }, "nobody": func(j *job) { j.Concurrency = 0 }, "no time": func(j *job) { j.For = 0 },
		"kind": func(j *job) { j.Kind = "x" }, "elsewhere": func(j *job) { j.Address = "192.0.2.1:80" },
	} {
		j := good
		change(&j)
		if _, err := perform(context.Background(), j); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestProcessorTimeOfThisProcess(t *testing.T) {
	t.Parallel()
	own := []int{os.Getpid()}
	before, err := processorTime(own)
	if err != nil {
		t.Fatal(err)
	}
	// How much of the processor this process gets is not known; that its clock moves when it works is.
	for start := monotonic(); ; {
		after, err := processorTime(own)
		if err != nil {
			t.Fatal(err)
		}
		if after-before >= 5*time.Millisecond {
			break
		}
		if monotonic()-start > 10*time.Second {
			t.Fatalf("10 s of work counted as %s", after-before)
		}
	}
	if bytes, err := resident(own); err != nil || bytes < 1<<20 {
		t.Errorf("resident: %d bytes, %v", bytes, err)
	}
}
