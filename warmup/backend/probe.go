package backend

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// connectEvery is how often a Probe that asks the kernel connects all the same.
const connectEvery = 250 * time.Millisecond

// Probe asks again and again whether the backend listens, as cheaply as its address allows. It must not be used by more than one goroutine at
// a time, and has to be closed.
type Probe struct {
	client *Client
	// kernel is nil where only a connect can tell.
	kernel    *diag
	connected time.Time
}

// NewProbe returns a Probe of the client's address.
func (c *Client) NewProbe(ctx context.Context) *Probe {
	p := &Probe{client: c}
	if len(c.loopback) > 0 {
		p.kernel = newDiag(ctx)
	}

	return p
}

// Close gives back what the Probe holds.
func (p *Probe) Close() {
	if p.kernel != nil {
		p.kernel.close()
	}
}

// Listening is [Client.Listening], without connecting as long as the kernel says that nobody is there.
func (p *Probe) Listening(ctx context.Context) error {
	if p.kernel != nil && time.Since(p.connected) < connectEvery && !slices.ContainsFunc(p.client.loopback, func(a netip.AddrPort) bool { return p.kernel.listening(a) }) {
		return &Error{Act: "connect to " + p.client.settings.Address, Kind: ErrNotYet, Err: errNobody}
	}
	p.connected = time.Now()

	return p.client.Listening(ctx)
}

var errNobody = errors.New("nobody listens")
