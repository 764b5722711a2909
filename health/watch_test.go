package health

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatchReportsTheDeathOfTheBackendAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		pass(17 * time.Second)
		b.expect(t)
		b.set("", nil)
		b.listener.Kill()
		b.expect(t, "lost")
		if at := b.when[0]; at != 17*time.Second {
			t.Errorf("reported %s after the start, the backend died after 17s", at)
		}
		pass(time.Minute)
		b.expect(t, "lost") // once
		b.set("2", nil)
		b.open(t)
		pass(6 * time.Second)
		b.expect(t, "lost", "restarted")
		pass(time.Minute)
		b.expect(t, "lost", "restarted")
		b.listener.Kill()
		b.expect(t, "lost", "restarted", "lost")
	})
}

func TestWatchNoticesARestartBehindTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		pass(7 * time.Second)
		old := b.listener
		b.set("2", nil)
		b.open(t) // listens again before the old connection ends
		old.Kill()
		b.expect(t, "restarted")
		if at := b.when[0]; at != 7*time.Second {
			t.Errorf("reported %s after the start, restarted after 7s", at)
		}
		pass(time.Minute)
		b.expect(t, "restarted")
	})
}

func TestWatchComparesTheIdentityEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(s *WatchSettings) { s.Dial = nil }, nil)
		for _, step := range []struct {
			identity string
			expected int
		}{
			{"", 0},    // unknown is no change
			{"1", 0},   // and neither is being known again
			{"1,4", 1}, // a new worker is cold
			{"4", 1},   // one that left is not missed
			{"4,5", 2},
			{"14", 3}, // no part of a number is a number
		} {
			b.set(step.identity, nil)
			pass(5 * time.Second)
			if n := len(locked(b, func() []string { return b.events })); n != step.expected {
				t.Errorf("with identity %q: %d restarts, expected %d", step.identity, n, step.expected)
			}
		}
	})
}

// uvicorn closes a connection on which nothing comes for 5 s.
func TestWatchDoesNotFlapWhenTheServerClosesIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, func(connection net.Conn) {
			_ = connection.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := connection.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
				_, _ = io.WriteString(connection, "HTTP/1.1 408 Request Timeout\r\n\r\n") // as some servers do, unasked
			}
			_ = connection.Close()
		})
		pass(time.Hour + 3*time.Second)
		b.expect(t)
		if n := b.dials.Load(); n < 700 || n > 722 {
			t.Errorf("dialled %d times in an hour, expected about 720", n)
		}
		b.listener.Kill()
		b.expect(t, "lost")
	})
}

func TestWatchDoesNotSpinWhenTheServerClosesAtOnce(t *testing.T) {
	for _, test := range []struct {
		name  string
		serve func(net.Conn)
	}{
		{"closes", func(c net.Conn) { _ = c.Close() }},
		{"talks without end", func(c net.Conn) {
			for {
				if _, err := c.Write(make([]byte, 1<<10)); err != nil {
					_ = c.Close()

					return
				}
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil, test.serve)
				pass(time.Hour)
				b.expect(t)
				if n := b.dials.Load(); n < 700 || n > 740 {
					t.Errorf("dialled %d times in an hour, expected about 720 and a dozen at the start", n)
				}
				b.listener.Kill()
				pass(5 * time.Second)
				b.expect(t, "lost")
			})
		})
	}
}

func TestWatchDoesNotTakeTimeoutsForLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		locked(b, func() any { b.dialErr = os.NewSyscallError("connect", syscall.ETIMEDOUT); return nil })
		b.watch.Look()
		b.listener.Kill() // the connection ends, and every dial times out
		pass(time.Minute)
		b.expect(t)
		if n := b.dials.Load(); n < 12 || n > 60 {
			t.Errorf("dialled %d times in a minute", n)
		}
		locked(b, func() any { b.dialErr = os.NewSyscallError("connect", syscall.ENOENT); return nil })
		pass(5 * time.Second)
		b.expect(t, "lost") // the socket's file is gone
	})
}

func TestWatchReportsChecksThatFailInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		sick := errors.New("status 503")
		for range 20 { // twice in a row, but never three times
			b.set("1", sick)
			pass(10 * time.Second)
			b.set("1", nil)
			pass(5 * time.Second)
		}
		b.expect(t)
		b.set("1", sick)
		pass(20 * time.Second)
		b.expect(t, "check failed 3", "check failed 4")
		b.set("1", nil)
		pass(20 * time.Second)
		b.expect(t, "check failed 3", "check failed 4", "check passed")
		if n := b.checks.Load(); n != 68 {
			t.Errorf("%d checks in 340 s", n)
		}
	})
}

func TestWatchLimitsEachCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(s *WatchSettings) {
			s.FailuresToReport, s.Timeout = 1, time.Second
			s.Check = func(ctx context.Context) error {
				<-ctx.Done()

				return ctx.Err()
			}
		}, nil)
		pass(6 * time.Second)
		b.expect(t, "check failed 1")
	})
}

func TestWatchWithoutACheckConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(s *WatchSettings) { s.Check = nil }, nil)
		locked(b, func() any { b.dialErr = os.ErrDeadlineExceeded; return nil })
		pass(16 * time.Second)
		b.expect(t, "check failed 3")
		locked(b, func() any { b.dialErr = nil; return nil })
		pass(5 * time.Second)
		b.expect(t, "check failed 3", "check passed")
	})
}

func TestWatchLooksWhenAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		b.watch.Look()
		b.expect(t)
		before := b.dials.Load()
		for range 1000 {
			b.watch.Look()
			pass(time.Millisecond)
		}
		if n := b.dials.Load() - before; n < 10 || n > 21 {
			t.Errorf("a thousand wishes within a second were %d looks", n)
		}
		pass(time.Second)
		_ = b.listener.Close() // the old connection lives on: only a new dial tells
		b.expect(t)
		b.watch.Look()
		b.expect(t, "lost")
	})
}

// A server that shuts down gracefully stops listening and keeps its old connections.
func TestWatchNoticesThatTheListenerIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil, nil)
		pass(time.Second)
		_ = b.listener.Close()
		b.set("", nil)
		b.expect(t)
		pass(5 * time.Second)
		b.expect(t, "lost")
	})
}

func TestWatchEndsWhileDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_ = newBench(t, func(s *WatchSettings) {
			s.Dial = func(ctx context.Context) (net.Conn, error) {
				<-ctx.Done()

				return nil, ctx.Err()
			}
		}, nil)
		pass(time.Second)
	})
}

func TestWatchMayRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		identity := "1"
		var restarts int
		w := NewWatch(WatchSettings{Identity: func() string { return identity }, Report: func(WatchEvent) { restarts++ }})
		for _, next := range []string{"2", "3"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := w.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("ended with %v", err)
			}
			cancel()
			identity = next // while nobody watched: the new run begins with it
		}
		if restarts != 0 {
			t.Errorf("%d restarts were reported", restarts)
		}
	})
}

// TestWatchOverRealSockets kills a real listener and its connection.
func TestWatchOverRealSockets(t *testing.T) {
	server := listen(t, "tcp", "127.0.0.1:0")
	address := server.Addr().String()
	accepted := make(chan net.Conn, 8)
	go func() {
		for {
			connection, err := server.Accept()
			if err != nil {
				return
			}
			accepted <- connection
		}
	}()
	events := make(chan WatchEvent, 8)
	w := NewWatch(WatchSettings{
		Dial:     func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", address) },
		Identity: ListenerIdentity("tcp", address),
		Interval: time.Hour, // only the connection can tell
		Report:   func(event WatchEvent) { events <- event },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	held := <-accepted
	_ = server.Close()
	_ = held.Close()
	if event := <-events; event.Kind != Lost || !errors.Is(event.Cause, syscall.ECONNREFUSED) {
		t.Errorf("reported %s: %v", event.Kind, event.Cause)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run ended with %v", err)
	}
}
