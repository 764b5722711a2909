package main

import (
	"context"
	"crypto/tls"
	"log/slog"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// newWarmup makes what speaks to the backend by itself, as "run" and "warm" need it: each says in settings what only it needs, the configuration says the rest.
func newWarmup(c *config.Config, address units.Address, backendTLS *tls.Config, settings warmup.Settings) (*backend.Client, *warmup.Runner, error) {
	client, err := backend.NewClient(backend.ClientSettings{
		Network:        address.Network,
		Address:        address.Host,
		BasePath:       address.Base,
		TLS:            clientTLS(address, backendTLS),
		GRPC:           backend.Peer{Network: c.Backend.GRPC.Network, Address: c.Backend.GRPC.Host, TLS: clientTLS(c.Backend.GRPC, backendTLS)},
		Headers:        c.Backend.SyntheticHeaders,
		Version:        version(),
		ConnectTimeout: c.Backend.ConnectTimeout.Std(),
	})
	if err != nil {
		return nil, nil, err
	}
	if settings.Logger == nil {
		settings.Logger = slog.New(slog.DiscardHandler)
	}
	settings.Config, settings.Client, settings.Models = c.Warmup, client, modelNames(c.Models)
	settings.Required = func(model string) bool { return required(c, model) }
	settings.Workers = c.Backend.Workers.Or(0)
	settings.Process = health.BootIdentity(health.ListenerIdentity(address.Network, address.Host))
	settings.MemoryLeft = memoryLeft
	settings.Reference = func(ctx context.Context, path string) (*warmup.Reference, error) {
		return startReference(ctx, path, settings.Logger)
	}
	settings.Options.ReadyPath = c.Backend.ReadyPath.Or("")
	if c.Warmup.Sample != "" {
		if settings.Options.Sample, err = backend.ReadSample(c.Warmup.Sample); err != nil {
			return nil, nil, err
		}
	}
	if c.Warmup.Descriptors != "" {
		if settings.Options.Schema, err = backend.ReadSchema(c.Warmup.Descriptors); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case c.Backend.Embedded():
		settings.Dialect, settings.Workers = backend.NewOIP(client), 1
	case c.Backend.Type != config.TypeAuto:
		if settings.Dialect, err = backend.New(c.Backend.Type.String(), client, settings.Options); err != nil {
			return nil, nil, err
		}
	}
	runner, err := warmup.NewRunner(settings)

	return client, runner, err
}

// required says whether the pod must be warm for a model: for all that are found, unless the configuration names them.
func required(c *config.Config, model string) bool {
	for _, configured := range c.Models {
		if configured.Name == model {
			return configured.Required
		}
	}

	return len(c.Models) == 0
}
