package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy/upstream"
)

// errStale ends the use of a pooled connection that the backend had closed, or spoken on, before we wrote.
var errStale = errors.New("reuse connection: the backend has closed it or sent bytes that nobody asked for")

// backendConn is a connection to the backend that counts what was written, so that a request of which nothing was written can be sent again.
type backendConn struct {
	net.Conn

	written atomic.Int64
	check   atomic.Bool // look whether the connection is still good before the next write
}

// Write implements [net.Conn].
func (c *backendConn) Write(p []byte) (int, error) {
	if c.check.Swap(false) && c.stale() {
		return 0, errStale
	}
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))

	return n, err
}

// CloseWrite is what a tunnel uses to hand on a half-close.
func (c *backendConn) CloseWrite() error { return closeWrite(c.Conn) }

// stale peeks: an idle connection has nothing to read, not even its end. An in-memory connection cannot be peeked at.
func (c *backendConn) stale() bool {
	sys, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sys.SyscallConn()

	return err != nil || upstream.Readable(raw)
}

// newTransport returns a transport of the standard library that speaks one protocol to one address and nothing else. It adds nothing to requests and unpacks nothing.
// Where asked is not nil, it first finds out whether the server speaks HTTP/2.
func newTransport(settings *Settings, address units.Address, h2c bool, asked *preface) *http.Transport {
	protocols := &http.Protocols{}
	switch {
	case h2c && address.TLS:
		protocols.SetHTTP2(true)
	case h2c:
		protocols.SetUnencryptedHTTP2(true)
	default:
		protocols.SetHTTP1(true)
	}
	dial := newDialer(settings, address)

	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			if asked != nil {
				if err := asked.ask(ctx, dial, network, to); err != nil {
					return nil, err
				}
			}
			conn, err := dial(ctx, network, to)
			if err != nil {
				return nil, err
			}
			if a := attemptOf(ctx); a != nil {
				if err := a.Dialed(); err != nil {
					_ = conn.Close()

					return nil, err
				}
			}

			return &backendConn{Conn: conn}, nil
		},
		Protocols:              protocols,
		DisableCompression:     true,
		MaxIdleConns:           settings.IdleConnections,
		MaxIdleConnsPerHost:    settings.IdleConnections,
		IdleConnTimeout:        settings.IdleTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
	if address.TLS {
		transport.DialTLSContext = secured(transport.DialContext, settings, address, h2c)
	}

	return transport
}
