package proxy

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

// connections counts those of clients, at all listeners together, and closes at once what goes beyond the limit, as nginx and Envoy do: left in the
// kernel's queue a connection would look like one that was accepted, and its client would wait here while another pod has room.
type connections struct {
	limit   int64 // 0: none
	open    atomic.Int64
	refused atomic.Int64 // since the start
	full    atomic.Bool  // as it was logged last
	logger  *slog.Logger
}

// ConnectionsSnapshot is how many connections clients have, and how many they did not get.
type ConnectionsSnapshot struct {
	Open    int64 `json:"open"`
	Limit   int64 `json:"limit,omitempty"`
	Refused int64 `json:"refused"`
}

// Connections returns what is known about clients' connections.
func (h *Handler) Connections() ConnectionsSnapshot {
	return ConnectionsSnapshot{Open: h.clients.open.Load(), Limit: h.clients.limit, Refused: h.clients.refused.Load()}
}

// Limit returns a listener that accepts what listener does within limits.connections, which all listeners share.
func (h *Handler) Limit(listener net.Listener) net.Listener {
	return &limitedListener{listener, &h.clients}
}

// take counts one connection more, if it fits.
func (c *connections) take() bool {
	if n := c.open.Add(1); c.limit == 0 || n <= c.limit {
		return true
	}
	c.open.Add(-1)
	c.refused.Add(1)
	if !c.full.Swap(true) {
		c.logger.Warn("limits.connections is reached, further connections are closed at once", "limit", c.limit)
	}

	return false
}

// give counts one connection less. There is room again, as far as the log goes, once a tenth is free.
func (c *connections) give() {
	if open := c.open.Add(-1); c.full.Load() && open <= c.limit-(c.limit+9)/10 && c.full.Swap(false) {
		c.logger.Info("there is room for connections again", "open", open, "limit", c.limit, "refused", c.refused.Load())
	}
}

type limitedListener struct {
	net.Listener

	clients *connections
}

// Accept implements [net.Listener].
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.clients.take() {
			return &clientConn{Conn: conn, clients: l.clients}, nil
		}
		_ = conn.Close()
	}
}

// clientConn is a connection that is counted until it is closed.
type clientConn struct {
	net.Conn

	clients *connections
	closed  atomic.Bool
	end     [4]byte // the last bytes that were read. They belong to whoever reads
}

// Read implements [net.Conn].
func (c *clientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n >= len(c.end) {
		copy(c.end[:], p[n-len(c.end):n])
	} else if n > 0 {
		copy(c.end[:], c.end[n:])
		copy(c.end[len(c.end)-n:], p[:n])
	}

	return n, err //nolint:wrapcheck // a connection hands errors on
}

// Close implements [net.Conn].
func (c *clientConn) Close() error {
	if !c.closed.Swap(true) {
		c.clients.give()
	}

	return c.Conn.Close()
}

// CloseWrite is how net/http, and a tunnel, say that no more will come.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}

	return c.Close() // and counts
}

// ReadFrom implements [io.ReaderFrom]: over TCP the kernel may move the bytes by itself.
func (c *clientConn) ReadFrom(from io.Reader) (int64, error) {
	return io.Copy(c.Conn, from) //nolint:wrapcheck // as above
}

// SyscallConn implements [syscall.Conn].
func (c *clientConn) SyscallConn() (syscall.RawConn, error) {
	if sys, ok := c.Conn.(syscall.Conn); ok {
		return sys.SyscallConn()
	}

	return nil, syscall.ENOTSUP
}

// retireKey is the key of the time at which a connection is old, in the context of its requests.
type retireKey struct{}

// born makes a new connection known to its requests, with the time at which it will be old: a tenth more or less than the age, or all that came at one moment would leave at one moment.
func (h *Handler) born(ctx context.Context, conn net.Conn) context.Context {
	ctx = withClient(ctx, conn)
	age := h.settings.MaxConnectionAge
	if age <= 0 {
		return ctx
	}
	tenth := int64(age / 10)

	return context.WithValue(ctx, retireKey{}, time.Now().Add(age-time.Duration(tenth)+time.Duration(rand.Int64N(2*tenth+1)))) //nolint:gosec // no secret
}

// aged says whether the connection of r is older than one may be. Its answer then ends it: on HTTP/1 by its header, on HTTP/2 by a GOAWAY, which lets the
// streams that run come to their end. A connection without requests is for its idle timeout to end.
func (h *Handler) aged(r *http.Request) bool {
	if h.settings.MaxConnectionAge <= 0 {
		return false
	}
	retire, ok := r.Context().Value(retireKey{}).(time.Time)

	return ok && !time.Now().Before(retire)
}
