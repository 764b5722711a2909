package upstream

import (
	"bufio"
	"errors"
	"net"
	"syscall"
	"time"
)

// readBuffer is how much is read ahead of an answer, in bytes. Heads are mostly smaller, and larger pieces of bodies go past it.
const readBuffer = 4 << 10

// conn is one connection to the backend. It belongs to the pool or to one exchange.
type conn struct {
	net.Conn

	r       *bufio.Reader
	raw     syscall.RawConn // nil: nothing can be said about its state
	ask     func(fd uintptr)
	heard   bool      // what ask found: there is something to read
	expires time.Time // as an unused connection; zero: never
	sent    uint64    // bytes that were written
	acked   uint64    // bytes_acked when the connection was new
	counts  bool      // acked is known
}

func newConn(made net.Conn) *conn {
	c := &conn{Conn: made}
	c.r = bufio.NewReaderSize(c, readBuffer)
	under := made
	if secure, ok := made.(interface{ NetConn() net.Conn }); ok {
		under = secure.NetConn() // what is readable there is not what TLS will read, but that something is says the same
	}
	if sys, ok := under.(syscall.Conn); ok {
		c.raw, _ = sys.SyscallConn()
	}
	c.ask = func(fd uintptr) { c.heard = peek(fd) }
	if under == made {
		c.acked, c.counts = c.bytesAcked()
	}

	return c
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent += uint64(n) //nolint:gosec // never negative

	return n, err
}

// expired says whether the connection has been unused for so long that the backend may be about to close it.
func (c *conn) expired(now time.Time) bool { return !c.expires.IsZero() && !now.Before(c.expires) }

// stale says whether the backend has closed an unused connection, or has sent bytes that nobody asked for.
func (c *conn) stale() bool {
	if c.r.Buffered() > 0 {
		return true
	}
	if c.raw == nil {
		return false
	}
	err := c.raw.Control(c.ask)

	return err != nil || c.heard
}

// readable says whether there is something to read, beside a goroutine that reads.
func (c *conn) readable() bool { return c.raw != nil && Readable(c.raw) }

// Readable says whether there is something to read from a socket, be it the end or an error, without taking it. It goes through Control, since whoever reads holds the lock for reads.
func Readable(socket syscall.RawConn) bool {
	heard := false
	err := socket.Control(func(fd uintptr) { heard = peek(fd) })

	return err != nil || heard
}

// peek says whether there is something to read, be it the end or an error.
func peek(fd uintptr) bool {
	var one [1]byte
	_, _, errno := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)

	return !errors.Is(errno, syscall.EAGAIN) && !errors.Is(errno, syscall.EINTR)
}
