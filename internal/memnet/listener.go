package memnet

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// backlog is how many connections may wait to be accepted before Dial blocks, as with a socket's listen queue.
const backlog = 128

// Listener is a [net.Listener] whose connections are pipes in memory, so that tests run in a [testing/synctest] bubble: every wait here is durable.
// It closes as a TCP listener does: connections that nobody accepted are reset, those accepted live on, and later dials are refused.
// All methods may be called concurrently.
type Listener struct {
	queue  chan *conn
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	open map[*conn]struct{} // accepted ends that are not closed yet, for Kill
}

// Listen returns a listener that is ready to be dialled.
func Listen() *Listener {
	return &Listener{queue: make(chan *conn, backlog), closed: make(chan struct{}), open: map[*conn]struct{}{}}
}

// Dial connects to the listener. Like a TCP handshake it succeeds before anybody accepts, and waits only while the backlog is full.
// Its error wraps [syscall.ECONNREFUSED] once the listener is closed, or ctx's error.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, opError("dial", err)
	}
	if l.isClosed() {
		return nil, refused()
	}
	client, server := pair()
	select {
	case l.queue <- server:
	case <-l.closed:
		return nil, refused()
	case <-ctx.Done():
		return nil, opError("dial", ctx.Err())
	}
	if l.isClosed() { // Close may have emptied the queue before we filled it again
		l.resetQueued()
	}

	return client, nil
}

// DialContext is Dial in the form that [net/http.Transport] wants; the network and the address say nothing here.
func (l *Listener) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return l.Dial(ctx)
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	if l.isClosed() {
		return nil, opError("accept", net.ErrClosed)
	}
	select {
	case server := <-l.queue:
		l.track(server)

		return server, nil
	case <-l.closed:
		return nil, opError("accept", net.ErrClosed)
	}
}

// Close implements [net.Listener]. Accepted connections live on.
func (l *Listener) Close() error {
	err := opError("close", net.ErrClosed)
	l.once.Do(func() {
		err = nil
		close(l.closed)
		l.resetQueued()
	})

	return err
}

// Kill closes the listener and resets every connection it accepted, as the death of the process behind it would.
func (l *Listener) Kill() {
	_ = l.Close() // already closed is fine: only the listener's dials depend on it
	l.mu.Lock()
	killed := make([]*conn, 0, len(l.open))
	for server := range l.open {
		killed = append(killed, server)
	}
	l.mu.Unlock()
	for _, server := range killed {
		server.reset()
	}
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return Addr{} }

// track remembers an accepted connection until it is closed.
func (l *Listener) track(server *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[server] = struct{}{}
	server.onClose = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, server)
	}
}

func (l *Listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

func (l *Listener) resetQueued() {
	for {
		select {
		case server := <-l.queue:
			server.reset()
		default:
			return
		}
	}
}

func refused() error { return opError("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED)) }

func opError(op string, err error) error {
	return &net.OpError{Op: op, Net: Addr{}.Network(), Source: nil, Addr: Addr{}, Err: err}
}
