package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// client has many connections and one thread that waits for all of them: a load generator whose goroutines wake each other would
// take from the processor what it wants to measure.
type client struct {
	epoll       int
	connections []*connection
	// answered is called with each whole answer. Its error ends the client.
	answered func(c *connection, now time.Duration) error
	buffer   []byte
	events   []unix.EpollEvent
}

// connection carries one request at a time.
type connection struct {
	fd     int
	unsent []byte
	answer message
	// since is when the request under way was sent, or due.
	since time.Duration
}

// newClient connects. The goroutine that calls it must be the one that uses the client.
func newClient(address string, connections int) (*client, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Is4() || !to.Addr().IsLoopback() {
		return nil, fmt.Errorf("connect: expected 127.0.0.1:port, got %q", address)
	}
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // else the kernel is late by 50 us on purpose
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	c := &client{epoll: epoll, buffer: make([]byte, 256<<10), events: make([]unix.EpollEvent, 128)}
	for i := range connections {
		fd, err := connect(to)
		if err == nil {
			c.connections = append(c.connections, &connection{fd: fd})
			err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
				Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(i), // which connection
			})
		}
		if err != nil {
			c.close()

			return nil, fmt.Errorf("connect to %s: %w", address, err)
		}
	}

	return c, nil
}

func connect(to netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = errors.Join(
		unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}),
		unix.SetNonblock(fd, true),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
	)
	if err != nil {
		_ = unix.Close(fd)
	}

	return fd, err
}

func (c *client) close() {
	for _, connection := range c.connections {
		_ = unix.Close(connection.fd)
	}
	_ = unix.Close(c.epoll)
	runtime.UnlockOSThread()
}

// send sends request, of which the connection keeps what the kernel does not take at once.
func (c *connection) send(request []byte, since time.Duration) error {
	c.since, c.unsent = since, request
	c.answer.reset()

	return c.flush()
}

func (c *connection) flush() error {
	for len(c.unsent) > 0 {
		n, err := unix.Write(c.fd, c.unsent)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("send request: %w", err)
		default:
			c.unsent = c.unsent[n:]
		}
	}

	return nil
}

// wait waits until something happens on a connection, at most until the time, and deals with it.
func (c *client) wait(until time.Duration) error {
	left := max(0, until-monotonic())
	timeout := unix.NsecToTimespec(int64(left))
	// Epoll by itself counts in milliseconds.
	ready, err := unix.Ppoll([]unix.PollFd{{Fd: int32(c.epoll), Events: unix.POLLIN}}, &timeout, nil) //nolint:gosec // a descriptor
	if ready == 0 || err != nil {
		if errors.Is(err, unix.EINTR) {
			err = nil
		}

		return err
	}
	n, err := unix.EpollWait(c.epoll, c.events, 0)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for answers: %w", err)
	}
	for _, event := range c.events[:max(n, 0)] {
		connection := c.connections[event.Fd]
		if err := connection.flush(); err != nil {
			return err
		}
		if event.Events&^unix.EPOLLOUT != 0 {
			if err := c.read(connection); err != nil {
				return err
			}
		}
	}

	return nil
}

// read reads what has come on one connection.
func (c *client) read(connection *connection) error {
	for {
		n, err := unix.Read(connection.fd, c.buffer)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read answer: %w", err)
		case n == 0:
			return errors.New("read answer: the other side closed the connection")
		}
		rest, done, err := connection.answer.feed(c.buffer[:n])
		if err != nil {
			return err
		}
		if done {
			if len(rest) > 0 {
				return fmt.Errorf("read answer: %d bytes came after its end", len(rest))
			}
			if err := c.answered(connection, monotonic()); err != nil {
				return err
			}
		}
		if n < len(c.buffer) {
			return nil // empty: the next edge tells when there is more
		}
	}
}

// post is a whole request as it goes over the wire: an inference whose answer is what ask says.
func post(size int, ask string) []byte {
	head := fmt.Sprintf("POST /v2/models/bench/infer HTTP/1.1\r\nHost: bench\r\nContent-Type: application/octet-stream\r\n%s: %s\r\nContent-Length: %d\r\n\r\n", askHeader, ask, size)

	return append([]byte(head), bytes.Repeat([]byte("a"), size)...)
}
