package main

import (
	"context"
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
}

// lastWords is what a drain leaves of its limit for the refusals of those who are still held to be written.
const lastWords = 500 * time.Millisecond

// lookForTunnels is how often a drain looks whether the last tunnel has ended.
const lookForTunnels = 50 * time.Millisecond

// parting is how long clients have, once each answer closes its connection, to learn of it by an answer: an unused connection can only be cut. A drain without a settling time has none.
const parting = time.Second

// beginDrain begins the drain, unless it has begun already.
func (p *pilot) beginDrain(reason string) {
	p.leaving.once.Do(func() {
		p.leaving.begun, p.leaving.config = time.Now(), p.present().Drain
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

	return nil
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
