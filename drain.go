package main

import (
	"context"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/proxy"
)

// drain leaves in order: readiness goes at once; new requests are still served while endpoint lists elsewhere catch up; then no connection is accepted any more,
// and what is in flight, or held, gets what is left of the limit.
func (p *pilot) drain(ctx context.Context) error {
	drain := p.present().Drain
	limit := time.Now().Add(drain.Limit.Value.Std())
	if err := p.machine.Move("", health.Draining, "asked to stop"); err != nil {
		p.logger.Debug("a move was refused", "error", err)
	}
	p.logger.Info("draining; a second signal ends at once", "settle", drain.Settle.Std(), "limit", drain.Limit.Value.Std())
	p.gate.Drain(drain.Held)
	settle := time.NewTimer(min(drain.Settle.Std(), time.Until(limit)))
	defer settle.Stop()
	<-settle.C

	p.handler.CloseConnections()
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	if p.data.Shutdown(ctx) != nil {
		p.logger.Warn("the drain has reached its limit; what is left is cut off", "in_flight", p.gate.Snapshot().InFlight, "held", p.gate.Snapshot().Held)
		p.gate.Drain(proxy.RefuseHeld)
		_ = p.data.Close()
	}
	p.machine.MoveAll(health.Stopped, "drained")

	return nil
}
