package backend

import (
	"context"
	"errors"
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
	dialled   time.Duration
	// metronome is nil where a timer of the runtime's has to do: where each attempt is a real dial, its price makes no difference.
	metronome *metronome
}

// NewProbe returns a Probe of the client's address.
func (c *Client) NewProbe(ctx context.Context) *Probe {
	p := &Probe{client: c}
	if len(c.loopback) > 0 {
		p.kernel = newDiag(ctx)
	}
	if c.cheap() {
		p.metronome = newMetronome()
	}

	return p
}

// Close gives back what the Probe holds.
func (p *Probe) Close() {
	if p.kernel != nil {
		p.kernel.close()
	}
	if p.metronome != nil {
		p.metronome.close()
	}
}

// Listening is [Client.Listening], without connecting as long as the kernel says that nobody is there.
func (p *Probe) Listening(ctx context.Context) error {
	if p.kernel != nil && time.Since(p.connected) < connectEvery && !slices.ContainsFunc(p.client.loopback, p.kernel.listening) {
		return &Error{Act: "connect to " + p.client.settings.Address, Kind: ErrNotYet, Err: errNobody}
	}
	p.connected = time.Now()
	err := p.client.Listening(ctx)
	p.dialled += time.Since(p.connected)

	return err
}

var errNobody = errors.New("nobody listens")

// Cheap says that looking costs less than waking up for it.
func (p *Probe) Cheap() bool { return p.metronome != nil }

// Spent is what looking has cost so far: processor time of the process where a look is cheap, else the time that the dials took.
func (p *Probe) Spent() time.Duration {
	if p.metronome != nil {
		return processorTime()
	}

	return p.dialled
}

// Wait waits for d between two questions. Its error is why ctx ended earlier.
func (p *Probe) Wait(ctx context.Context, d time.Duration) error {
	if p.metronome != nil {
		return p.metronome.wait(ctx, d)
	}

	return wait(ctx, d)
}

// wait waits for d by a timer of the runtime's.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}

	return context.Cause(ctx)
}
