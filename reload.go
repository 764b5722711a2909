package main

import (
	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/proxy"
)

// effective is the configuration in force as it is shown, without secrets.
func (p *pilot) effective() any {
	shown, err := config.JSON(p.present())
	if err != nil {
		return err.Error() // not possible: what was loaded can be printed
	}

	return shown
}

// present is the configuration in force.
func (p *pilot) present() *config.Config { return p.latest.Load() }

// fixed are the keys that only a restart changes.
var fixed = []string{"backend", "models", "readiness", "limits", "warmup", "health", "circuit", "xds", "telemetry.traces", "telemetry.metrics"}

// reconfigure puts in force what a reload may change; streams, held requests, breaker and warm models stay as they are.
func (p *pilot) reconfigure(next *config.Config) error {
	proxy.BoundGarbage(int64(next.Hold.Memory.Value))
	p.gate.Configure(next.Hold, int64(next.Hold.Memory.Value), next.Concurrency)
	p.handler.Configure(next.Timeouts, next.Hold, next.Telemetry.ServerTiming)
	if p.publisher != nil {
		p.publisher.Configure(xdsLimits(next), xdsPromises(next))
	}
	p.latest.Store(next)

	return nil
}
