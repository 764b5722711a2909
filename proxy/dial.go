package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// dialError is a connection that could not be made. Nothing was sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// local says whether the reason lies on our side: no descriptor, no port, no memory. It says nothing about the backend.
func (e *dialError) local() bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN} {
		if errors.Is(e.err, errno) {
			return true
		}
	}

	return false
}

// timeout says whether the backend's side did not answer in time. A full accept queue looks like this; saturation is not loss.
func (e *dialError) timeout() bool {
	var timeout net.Error

	return errors.As(e.err, &timeout) && timeout.Timeout()
}

// errHoldsMeanwhile ends an attempt that the gate let through just before it began to hold: what it has connected to may be the backend's next, cold, life.
var errHoldsMeanwhile = errors.New("the gate holds again")

// fallbackDelay is how long a connection over the first IP version may take before the other one is tried beside it. A name such as localhost has both, and
// a server often listens on one of them only.
const fallbackDelay = 100 * time.Millisecond

// Dialer connects to backends, over whichever IP version answers.
func Dialer() *net.Dialer { return &net.Dialer{FallbackDelay: fallbackDelay} }

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// connecting bounds one attempt to connect.
func (s *Settings) connecting(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.ConnectTimeout <= 0 {
		return ctx, func() {}
	}

	return context.WithTimeout(ctx, s.ConnectTimeout)
}

// newDialer returns what makes one connection to address, within its time. Its errors are *dialError.
func newDialer(settings *Settings, address units.Address) dialFunc {
	dial := settings.DialContext
	if dial == nil {
		dial = Dialer().DialContext
	}

	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := settings.connecting(ctx)
		defer cancel()
		conn, err := dial(ctx, address.Network, address.Host)
		if err != nil {
			return nil, &dialError{fmt.Errorf("dial %s: %w", address, err)}
		}

		return conn, nil
	}
}
