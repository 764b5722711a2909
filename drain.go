package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/proxy"
)

// drain is how a pilot leaves, in order: readiness goes at once; new requests are still served while endpoint lists elsewhere catch up; from then on
// each answer closes its connection; held requests that the limit catches up with are refused. It begins with the operator's word or with the first
// signal, whichever comes first; only the signal ends the process.
type drain struct {
	once   sync.Once
	begun  time.Time
	config config.DrainConfig
	// begin is closed once the above is set, and over when nothing is left to wait for.
	begin, over chan struct{}
	// waiting is how many wait at /drainz.
	waiting atomic.Int64
	// quit is asked for by the operator, and ends the process as the first signal does.
	quit chan struct{}
}

func newDrain() *drain {
	return &drain{begin: make(chan struct{}), over: make(chan struct{}), quit: make(chan struct{}, 1)}
}

const (
	// lastWords is what a drain leaves of its limit for the refusals of those who are still held to be written, and how long at its end the answers of the other ports may take.
	lastWords = 500 * time.Millisecond
	// drainExpected is how long whoever asks at /drainz waits for a drain to begin: the hooks of a pod's containers run at the same time.
	drainExpected = 3 * time.Second
	// drainLook is the time between two looks at what is in flight.
	drainLook = 20 * time.Millisecond
	// drainWaiters bounds how many may wait at /drainz: a pod has a few containers with a hook each.
	drainWaiters = 64
)

// lookForTunnels is how often a drain looks whether the last tunnel has ended.
const lookForTunnels = 50 * time.Millisecond

// parting is how long clients have, once each answer closes its connection, to learn of it by an answer: an unused connection can only be cut. A drain without a settling time has none.
const parting = time.Second

// beginDrain begins the drain, unless it has begun already.
func (p *pilot) beginDrain(reason string) {
	p.leaving.once.Do(func() {
		p.leaving.begun, p.leaving.config = time.Now(), p.present().Drain
		close(p.leaving.begin)
		if err := p.machine.Move("", health.Draining, reason); err != nil {
			p.logger.Debug("a move was refused", "error", err)
		}
		p.logger.Info("draining; a second signal ends at once", "settle", p.leaving.config.Settle.Std(), "limit", p.leaving.config.Limit.Value.Std())
		p.gate.Drain(p.leaving.config.Held)
		time.AfterFunc(p.leaving.config.Settle.Std(), p.handler.CloseConnections)
		time.AfterFunc(max(p.leaving.config.Limit.Value.Std()-lastWords, 0), func() { p.gate.Drain(proxy.RefuseHeld) })
	})
}

// drain drains and returns when what was in flight is done, at the limit at the latest.
func (p *pilot) drain(ctx context.Context) error {
	p.beginDrain("asked to stop")
	limit := p.leaving.begun.Add(p.leaving.config.Limit.Value.Std())
	settled := p.leaving.begun.Add(p.leaving.config.Settle.Std())
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	settle := time.NewTimer(time.Until(settled.Add(min(parting, p.leaving.config.Settle.Std()))))
	defer settle.Stop()
	select {
	case <-settle.C:
	case <-ctx.Done():
	}
	if !p.shutdown(ctx) {
		p.logger.Warn("the drain has reached its limit; what is left is cut off", "in_flight", p.gate.Snapshot().InFlight, "held", p.gate.Snapshot().Held)
		for _, server := range p.users() {
			_ = server.Close()
		}
	}
	p.machine.MoveAll(health.Stopped, "drained")
	close(p.leaving.over)
	p.farewell(ctx)

	return nil
}

// farewell lets the health port answer those who waited for the end, and the admin port whoever asked for it.
func (p *pilot) farewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	_ = p.health.Shutdown(ctx) // who does not take the answer goes without
	_ = p.admin.Shutdown(ctx)  // as above
}

// quit ends the process by the operator's word, if that is allowed, after a drain.
func (p *pilot) quit() error {
	if !p.present().Drain.Quit {
		return errors.New("quit: drain.quit is not true")
	}
	select {
	case p.leaving.quit <- struct{}{}:
	default: // asked for already
	}

	return nil
}

// drainz waits until the drain has nothing left to wait for and says how it ended. It acts on nothing: who asks is the hook that keeps the backend's container from being told
// to stop, and it may well ask before the drain begins, or in a pod that does not drain at all.
func (p *pilot) drainz(ctx context.Context) (status int, text string) {
	if p.leaving.waiting.Add(1) > drainWaiters {
		p.leaving.waiting.Add(-1)

		return http.StatusServiceUnavailable, "too many wait here already"
	}
	defer p.leaving.waiting.Add(-1)
	expected := time.NewTimer(drainExpected)
	defer expected.Stop()
	select {
	case <-p.leaving.begin:
	case <-expected.C:
		return http.StatusOK, "no drain has begun"
	case <-ctx.Done():
		return http.StatusOK, "gone"
	}
	limit := time.NewTimer(time.Until(p.leaving.begun.Add(p.leaving.config.Limit.Value.Std())))
	defer limit.Stop()
	look := time.NewTimer(time.Until(p.leaving.begun.Add(p.leaving.config.Settle.Std())))
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if now := p.gate.Snapshot(); now.InFlight == 0 && now.Held == 0 {
				return http.StatusOK, "drained"
			}
			look.Reset(drainLook)
		case <-p.leaving.over:
			return http.StatusOK, "drained"
		case <-limit.C:
			return http.StatusOK, "the limit has passed"
		case <-ctx.Done():
			return http.StatusOK, "gone"
		}
	}
}

// users are the servers that answer users.
func (p *pilot) users() []*http.Server { return append([]*http.Server{p.data}, p.extra...) }

// shutdown ends the servers that answer users, all at the same time, and says whether what was in flight could finish.
func (p *pilot) shutdown(ctx context.Context) (finished bool) {
	var late atomic.Bool
	var ending sync.WaitGroup
	for _, server := range p.users() {
		ending.Go(func() {
			if server.Shutdown(ctx) != nil {
				late.Store(true)
			}
		})
	}
	ending.Wait()

	return !late.Load() && p.tunnelsEnd(ctx)
}

// tunnelsEnd waits for the connections that have been switched to another protocol, of which net/http knows nothing any more.
func (p *pilot) tunnelsEnd(ctx context.Context) bool {
	look := time.NewTicker(lookForTunnels)
	defer look.Stop()
	for p.gate.Snapshot().InFlight > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}

	return true
}
