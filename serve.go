package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/oklog/run"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// listeners are the sockets, opened before anything is started, so that a port that is taken is an error and not a surprise.
type listeners struct {
	data, health, admin net.Listener
	xds                 net.Listener // nil: none
	extra               []net.Listener
}

func (p *pilot) listen(ctx context.Context) (listeners, error) {
	type port struct {
		name     string
		address  units.Listen
		listener *net.Listener
	}
	opened := listeners{extra: make([]net.Listener, len(p.config.Listen.Extra))}
	ports := make([]port, 0, 4+len(opened.extra))
	ports = append(ports,
		port{"data", p.config.Listen.Data, &opened.data},
		port{"health", p.config.Listen.Health, &opened.health},
		port{"admin", p.config.Listen.Admin, &opened.admin},
	)
	for i, extra := range p.config.Listen.Extra {
		ports = append(ports, port{fmt.Sprintf("extra[%d]", i), extra.Address, &opened.extra[i]})
	}
	if !p.config.XDS.Serve.IsZero() {
		ports = append(ports, port{"xds", p.config.XDS.Serve, &opened.xds})
	}
	for _, port := range ports {
		listener, err := listenAt(ctx, port.address)
		if err != nil {
			return listeners{}, fmt.Errorf("listen for %s: %w", port.name, err)
		}
		*port.listener = listener
		p.logger.Info("listening", "port", port.name, "address", listener.Addr().String())
	}

	return opened, nil
}

// serve starts the actors and waits. The first one to end ends all; normally that is the drain, which ends when ctx has ended and what was in flight is done.
func (p *pilot) serve(ctx context.Context, sockets listeners, watcher *config.Watcher) error {
	var actors run.Group
	draining, cancel := context.WithCancel(ctx)
	actors.Add(func() error {
		select {
		case <-draining.Done():
		case <-p.leaving.quit:
		}

		return p.drain(context.WithoutCancel(ctx))
	}, func(error) { cancel() })

	serveHTTP(&actors, p.data, p.handler.Limit(sockets.data))
	for i, server := range p.extra {
		serveHTTP(&actors, server, p.handler.Limit(sockets.extra[i]))
	}
	serveHTTP(&actors, p.health, sockets.health)
	serveHTTP(&actors, p.admin, sockets.admin)
	p.listening.Store(true)

	background(ctx, &actors, p.breaker.Run)
	background(ctx, &actors, p.prepare)
	background(ctx, &actors, p.keeper.Run)
	background(ctx, &actors, p.recorder.Run)
	if sockets.xds != nil {
		background(ctx, &actors, func(ctx context.Context) error { return p.publish(ctx, sockets.xds, sockets.data.Addr()) })
	}
	if p.worker != nil {
		background(ctx, &actors, p.worker.Run)
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	if watcher.Source.Path != "" {
		watcher.Signal = hangups
		background(ctx, &actors, watcher.Run)
	}

	return actors.Run()
}

// serveHTTP adds a server to the actors, with TLS if it has a configuration of it.
func serveHTTP(actors *run.Group, server *http.Server, listener net.Listener) {
	ended := make(chan struct{})
	actors.Add(func() error {
		serve := server.Serve
		if server.TLSConfig != nil {
			serve = func(listener net.Listener) error { return server.ServeTLS(listener, "", "") }
		}
		if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve at %s: %w", listener.Addr(), err)
		}
		<-ended // a server that was shut down is not the end of the others

		return nil
	}, func(error) {
		_ = server.Close()
		close(ended)
	})
}

// background adds something that runs until it is told to stop, which is later than the end of ctx: the drain still needs it.
func background(ctx context.Context, actors *run.Group, do func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	actors.Add(func() error {
		if err := do(ctx); ctx.Err() == nil {
			return err
		}

		return nil // it was told to stop
	}, func(error) { cancel() })
}
