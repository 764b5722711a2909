package health

import (
	"context"
	"errors"
	"net"
	"time"
)

// unasked is how many bytes one connection may bring that nobody asked for, such as HTTP/2 settings or a 408, before it is given up.
const unasked = 64 << 10

var errUnasked = errors.New("the server sent too much that nobody asked for")

// stayConnected keeps one connection open. When it ends it looks who listens, and dials again: at once after a connection that had settled, which is what a server with an idle limit needs,
// and after a growing pause when the server closes at once or cannot be reached.
func (w *Watch) stayConnected(ctx context.Context) {
	wait := time.Duration(0)
	for ctx.Err() == nil {
		lived := w.connection(ctx)
		if lived >= min(settled, w.settings.Interval) {
			wait = 0

			continue
		}
		wait = min(max(firstPause, 2*wait), w.settings.Interval)
		if !pause(ctx, wait) {
			return
		}
	}
}

// connection dials once, holds the connection to its end, and returns how long it lived.
func (w *Watch) connection(ctx context.Context) (lived time.Duration) {
	connection, err := w.dial(ctx)
	if err != nil {
		return 0
	}
	// A server that was started again at once may not listen yet when the old connection ends, and accept the new one a moment later.
	w.compareIdentity(ctx, "another process accepts connections")
	began := time.Now()
	cause := drain(ctx, connection)
	if ctx.Err() != nil {
		return 0
	}
	lived = time.Since(began)
	w.settings.Logger.Debug("connection ended", "error", cause, "lived", lived)
	w.compareIdentity(ctx, "the connection ended and another process listens")

	return lived
}

// drain reads and forgets until the connection or ctx ends, and closes it.
func drain(ctx context.Context, connection net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() }) // its end is all that is wanted
	defer func() {
		stop()
		_ = connection.Close() // as above; closed already is fine
	}()
	buffer := make([]byte, 512)
	for total := 0; total < unasked; {
		n, err := connection.Read(buffer)
		if err != nil {
			return err
		}
		total += n
	}

	return errUnasked
}
