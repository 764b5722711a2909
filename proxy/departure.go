package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errClientLeft ends a body whose client was seen to leave.
var errClientLeft = errors.New("read request body: the client has left")

// lookForClient is how often a client is looked at whose body nobody reads. net/http sees it leave only by reading.
const lookForClient = 250 * time.Millisecond

// clientKey is the key of the client's connection in a request's context.
type clientKey struct{}

// withClient keeps the client's connection where exchanges find it.
func withClient(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, conn)
}

// bodyBegan says, of an HTTP/1 request of which nothing but its head has been taken, whether some of its body has been read from the client's connection as well. Where that
// cannot be known it is taken not to have been.
func bodyBegan(r *http.Request) bool {
	counted, _ := r.Context().Value(clientKey{}).(*clientConn)

	return counted != nil && r.TLS == nil && r.ProtoMajor == 1 && string(counted.end[:]) != "\r\n\r\n"
}

// clientSocket returns the socket of the client whose request has that context, or nil where there is none to look at.
func clientSocket(ctx context.Context) syscall.RawConn {
	conn, _ := ctx.Value(clientKey{}).(net.Conn)
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	sys, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	socket, err := sys.SyscallConn()
	if err != nil {
		return nil
	}

	return socket
}

// hungUp says whether the other end has closed the socket. One that has closed only its sending half counts, as it does for net/http.
func hungUp(socket syscall.RawConn) bool {
	gone := false
	err := socket.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // descriptors are small
		n, err := unix.Poll(polled, 0)
		gone = err == nil && n > 0
	})

	return gone || err != nil
}

// watch calls left, which takes the place of an earlier one, if the client leaves while nobody reads its body. It ends with the body.
func (b *Body) watch(left func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = left
	if !b.http1 || b.closed || b.err != nil || b.patrol != nil {
		return // an HTTP/2 client that leaves is noticed whoever reads
	}
	if socket := clientSocket(b.request.Context()); socket != nil {
		b.patrol = time.AfterFunc(lookForClient, func() { b.look(socket) })
	}
}

// look looks for the client once.
func (b *Body) look(socket syscall.RawConn) {
	b.mu.Lock()
	if b.closed || b.err != nil {
		b.mu.Unlock()

		return
	}
	if b.reading || !hungUp(socket) {
		b.patrol.Reset(lookForClient)
		b.mu.Unlock()

		return
	}
	b.err = errClientLeft
	b.changed.Broadcast()
	left := b.left
	b.mu.Unlock()
	left()
}
