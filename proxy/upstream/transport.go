package upstream

import (
	"context"
	"net"
	"time"
)

// Settings is what a transport is made of.
type Settings struct {
	// Dial makes one connection to the backend, within a time of its own.
	Dial func(ctx context.Context) (net.Conn, error)
	// MaxIdle is how many unused connections are kept. 0 keeps none.
	MaxIdle int
	// IdleTimeout is how long each is kept, or less where the backend's Keep-Alive header says so. 0 keeps them until they are stale.
	IdleTimeout time.Duration
}

// Transport makes exchanges with one backend over connections that it keeps. All its methods may be called concurrently. How many exchanges there are at once is for its callers to bound.
type Transport struct {
	dial func(ctx context.Context) (net.Conn, error)
	pool pool
}

// NewTransport returns a transport; it connects to nobody yet.
func NewTransport(settings Settings) *Transport {
	return &Transport{dial: settings.Dial, pool: pool{max: settings.MaxIdle, timeout: settings.IdleTimeout}}
}

// CloseIdleConnections closes the connections that nobody uses.
func (t *Transport) CloseIdleConnections() { t.pool.closeAll() }

// Idle returns how many connections nobody uses.
func (t *Transport) Idle() int { return t.pool.len() }

// connect returns an unused connection that is still good, or a new one.
func (t *Transport) connect(ctx context.Context, w Watcher) (*conn, error) {
	if c := t.pool.take(); c != nil {
		return c, nil
	}
	made, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.Dialed(); err != nil {
		_ = made.Close()

		return nil, err
	}

	return newConn(made), nil
}
