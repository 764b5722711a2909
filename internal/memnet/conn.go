package memnet

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// conn is one end of a connection: it reads from one stream and writes to the other.
type conn struct {
	in, out   *stream
	readLimit *deadline
	sendLimit *deadline
	closed    chan struct{}
	once      sync.Once
	onClose   func() // set before the end is handed out; may be nil
}

// pair returns the two ends of a new connection.
func pair() (client, server *conn) {
	up, down := newStream(), newStream()

	return newConn(down, up), newConn(up, down)
}

func newConn(in, out *stream) *conn {
	return &conn{in: in, out: out, readLimit: newDeadline(), sendLimit: newDeadline(), closed: make(chan struct{})}
}

// Read implements [net.Conn]: what was sent before the peer closed is still read, then io.EOF, or ECONNRESET after a reset.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b, c.closed, c.readLimit)
	if err != nil && !errors.Is(err, io.EOF) { // like net, Read returns a bare io.EOF
		err = opError("read", err)
	}

	return n, err
}

// Write implements [net.Conn]. It returns once the bytes fit into the connection's buffer, as TCP does.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b, c.closed, c.sendLimit)
	if err != nil {
		err = opError("write", err)
	}

	return n, err
}

// CloseWrite sends the end of the stream and leaves the reading side open, as [net.TCPConn.CloseWrite] does.
func (c *conn) CloseWrite() error {
	if c.isClosed() {
		return opError("close", net.ErrClosed)
	}
	c.out.end(io.EOF)

	return nil
}

// Close implements [net.Conn]. Bytes that the peer sent and that nobody read turn it into a reset, as in Linux.
func (c *conn) Close() error {
	if c.in.unread() {
		return c.end(syscall.ECONNRESET)
	}

	return c.end(io.EOF)
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return Addr{} }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return Addr{} }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	if c.isClosed() {
		return opError("set", net.ErrClosed)
	}
	c.readLimit.set(t)
	c.sendLimit.set(t)

	return nil
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.isClosed() {
		return opError("set", net.ErrClosed)
	}
	c.readLimit.set(t)

	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	if c.isClosed() {
		return opError("set", net.ErrClosed)
	}
	c.sendLimit.set(t)

	return nil
}

// reset closes the connection so that the peer sees ECONNRESET.
func (c *conn) reset() { _ = c.end(syscall.ECONNRESET) } // closed already: the peer has seen its end

func (c *conn) end(cause error) error {
	err := opError("close", net.ErrClosed)
	c.once.Do(func() {
		err = nil
		close(c.closed)
		c.out.end(cause)
		c.in.refuse()
		if c.onClose != nil {
			c.onClose()
		}
	})

	return err
}

func (c *conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}
