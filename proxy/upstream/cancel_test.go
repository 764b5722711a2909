package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cancelRaces is how often an end and a cancel are raced.
const cancelRaces = 100_000

// TestCancelNeverHitsTheNextExchange races the cancelling of an exchange with its end, while a second user takes the connection as soon as it is back.
func TestCancelNeverHitsTheNextExchange(t *testing.T) {
	t.Parallel()
	transport := rawBackend(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		for {
			head, err := readHead(r)
			if err != nil {
				return
			}
			var target string
			_, _ = fmt.Sscanf(head, "GET %s", &target)
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(target), target)
		}
	})
	races := cancelRaces
	if raceDetector {
		races /= 10 // it makes each ten times slower
	}
	var cancelled, kept atomic.Int64
	var users sync.WaitGroup
	for user := range 2 {
		users.Go(func() {
			for i := range races / 2 {
				target := fmt.Sprintf("/%d/%d", user, i)
				if user == 0 {
					raceCancel(transport, target, i, &cancelled, &kept)
				} else if got := do(transport, &Request{Target: target}); got.err != nil || got.body != target {
					t.Errorf("%s got %q and error %v", target, got.body, got.err)

					return
				}
			}
		})
	}
	users.Wait()
	t.Logf("%d exchanges were cancelled, %d ended first", cancelled.Load(), kept.Load())
	if cancelled.Load() == 0 || kept.Load() == 0 {
		t.Error("one of the two always came first: nothing was raced")
	}
}

// raceCancel makes an exchange that is cancelled some microseconds after its begin.
func raceCancel(transport *Transport, target string, i int, cancelled, kept *atomic.Int64) {
	var e Exchange
	var canceller sync.WaitGroup
	canceller.Go(func() {
		for end := time.Now().Add(time.Duration(i%100) * time.Microsecond); time.Now().Before(end); {
			continue
		}
		e.Cancel()
	})
	defer canceller.Wait()
	defer e.Close()
	err := e.Do(context.Background(), transport, &Request{Method: "GET", Target: target, Host: "h"}, silentWatcher{}, http.Header{})
	if err == nil {
		_, err = io.ReadAll(&e)
	}
	if err != nil {
		cancelled.Add(1)
	} else {
		kept.Add(1)
	}
}

func TestCancelEndsEveryWait(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	silent := rawBackend(t, func(_ int, conn net.Conn, r *bufio.Reader) {
		head, _ := readHead(r)
		if strings.HasPrefix(head, "POST ") { // a cancelled exchange may have sent nothing
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi")
		}
		_, _ = io.Copy(io.Discard, r)
	})
	dialling := NewTransport(Settings{Dial: func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()

		return nil, ctx.Err()
	}})
	tests := []struct {
		name      string
		transport *Transport
		request   Request
	}{
		{"connecting", dialling, Request{}},
		{"waiting for the head", silent, Request{}},
		{"waiting for the body", silent, Request{Method: http.MethodPost}},
		{"sending", silent, Request{Length: 64 << 20, Body: io.LimitReader(zeros{}, 64<<20)}},
	}
	for _, tt := range tests {
		var e Exchange
		timer := time.AfterFunc(20*time.Millisecond, e.Cancel)
		tt.request.Target, tt.request.Host = "/", "h"
		if tt.request.Method == "" {
			tt.request.Method = http.MethodPut
		}
		err := e.Do(context.Background(), tt.transport, &tt.request, silentWatcher{}, http.Header{})
		if err == nil {
			_, err = io.ReadAll(&e)
		}
		if err == nil {
			t.Errorf("%s: no error", tt.name)
		}
		timer.Stop()
		e.Close()
	}
}
