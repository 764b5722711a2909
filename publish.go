package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/xds"
)

// wireXDS makes what tells Envoy and gRPC clients of the data port, where the configuration asks for it.
func (p *pilot) wireXDS() error {
	c := p.config
	if c.XDS.Serve.IsZero() {
		return nil
	}
	var secure *certificates
	if !c.XDS.TLS.IsZero() {
		var err error
		if secure, err = newCertificates("xds.tls", c.XDS.TLS, p.logger); err != nil {
			return err
		}
	}
	var err error
	p.publisher, err = newPublisher(c, secure.server(), p.logger)

	return err
}

func newPublisher(c *config.Config, secure *tls.Config, logger *slog.Logger) (*xds.Publisher, error) {
	return xds.New(xds.Settings{
		Envoy:    c.XDS.Envoy,
		Limits:   xdsLimits(c),
		Promises: xdsPromises(c),
		Families: xds.LocalFamilies(),
		Data:     c.Listen.Data,
		TLS:      secure,
		Logger:   logger,
	})
}

// xdsLimits are how much the data port takes. Requests have a limit only where those at the backend have one: beyond it they are held, as long as there is room.
func xdsLimits(c *config.Config) xds.Limits {
	limits := xds.Limits{Connections: c.Limits.Connections, HeaderBytes: c.Limits.HeaderBytes, Headers: c.Limits.Headers}
	if most := c.Concurrency.Limit.Or(0); most > 0 {
		limits.Requests = most + c.Hold.MaxRequests
	}

	return limits
}

func xdsPromises(c *config.Config) xds.Promises {
	holds := c.Hold.MaxRequests > 0

	return xds.Promises{
		HoldsWhileWarming:   holds && c.XDS.ServeWhileWarming == xds.Hold,
		HoldsWhileUnhealthy: holds && c.Circuit.WhileOpen == circuit.Hold,
	}
}

// publish serves what the state of the pod wants, until ctx ends.
func (p *pilot) publish(ctx context.Context, listener net.Listener, data net.Addr) error {
	if err := p.publisher.Point(units.Listen{Network: data.Network(), Host: data.String()}); err != nil {
		return err
	}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		for now := range p.machine.Watch(ctx) {
			p.publisher.Follow(now.State)
		}
	}()
	err := p.publisher.Serve(ctx, listener)
	if ctx.Err() != nil {
		<-followed
	}

	return err
}
