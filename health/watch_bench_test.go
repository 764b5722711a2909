package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
)

// bench is a backend in memory and a watch on it.
type bench struct {
	mu       sync.Mutex
	listener *memnet.Listener
	identity string
	checkErr error
	dialErr  error
	events   []string
	when     []time.Duration

	began  time.Time
	dials  atomic.Int64
	checks atomic.Int64
	serve  func(net.Conn) // what the backend does with a connection; nil keeps it
	watch  *Watch
}

// newBench starts a watch with an interval of 5 s over a backend with identity "1". The watch ends with the test.
func newBench(t *testing.T, change func(*WatchSettings), serve func(net.Conn)) *bench {
	t.Helper()
	b := &bench{identity: "1", serve: serve, began: time.Now()}
	b.open(t)
	settings := WatchSettings{
		Dial: func(ctx context.Context) (net.Conn, error) {
			b.dials.Add(1)
			b.mu.Lock()
			listener, err := b.listener, b.dialErr
			b.mu.Unlock()
			if err != nil {
				return nil, err
			}

			return listener.Dial(ctx)
		},
		Identity: func() string { return locked(b, func() string { return b.identity }) },
		Check: func(context.Context) error {
			b.checks.Add(1)

			return locked(b, func() error { return b.checkErr })
		},
		Report: func(event WatchEvent) {
			text := event.Kind.String()
			if event.InARow > 0 {
				text = fmt.Sprintf("%s %d", text, event.InARow)
			}
			if (event.Cause == nil) != (event.Kind == CheckPassed) {
				text += " with a wrong cause"
			}
			locked(b, func() any {
				b.events, b.when = append(b.events, text), append(b.when, time.Since(b.began))

				return nil
			})
		},
	}
	if change != nil {
		change(&settings)
	}
	b.watch = NewWatch(settings)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context())) // to end with a cause of ours, not with the test's
	ended := make(chan error, 1)
	go func() { ended <- b.watch.Run(ctx) }()
	stop := errors.New("the test is over")
	t.Cleanup(func() {
		cancel(stop)
		if err := <-ended; !errors.Is(err, stop) {
			t.Errorf("Run ended with %v", err)
		}
		b.listener.Kill()
	})
	synctest.Wait()

	return b
}

func locked[T any](b *bench, do func() T) T {
	b.mu.Lock()
	defer b.mu.Unlock()

	return do()
}

// open lets the backend listen.
func (b *bench) open(t *testing.T) {
	t.Helper()
	listener := memnet.Listen()
	locked(b, func() any { b.listener = listener; return nil })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			if b.serve != nil {
				go b.serve(connection)
			} else {
				go func() {
					_, _ = io.Copy(io.Discard, connection)
					_ = connection.Close()
				}()
			}
		}
	}()
}

func (b *bench) set(identity string, checkErr error) {
	locked(b, func() any { b.identity, b.checkErr = identity, checkErr; return nil })
}

// expect compares all that was reported so far.
func (b *bench) expect(t *testing.T, expected ...string) {
	t.Helper()
	synctest.Wait()
	if got := locked(b, func() []string { return slices.Clone(b.events) }); !slices.Equal(got, expected) {
		t.Errorf("reported %q, expected %q", got, expected)
	}
}
