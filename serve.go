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
type listeners struct{ data, health, admin net.Listener }

func (p *pilot) listen(ctx context.Context) (listeners, error) {
	var opened listeners
	for _, port := range []struct {
		name     string
		address  units.Listen
		listener *net.Listener
	}{
		{"data", p.config.Listen.Data, &opened.data},
		{"health", p.config.Listen.Health, &opened.health},
		{"admin", p.config.Listen.Admin, &opened.admin},
	} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, port.address.Network, port.address.Host)
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
	actors.Add(func() error { <-draining.Done(); return p.drain(context.WithoutCancel(ctx)) }, func(error) { cancel() })

	serveHTTP(&actors, p.data, sockets.data)
	serveHTTP(&actors, p.health, sockets.health)
	serveHTTP(&actors, p.admin, sockets.admin)
	p.listening.Store(true)

	background(ctx, &actors, p.breaker.Run)
	background(ctx, &actors, p.keeper.Run)
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

// serveHTTP adds a server to the actors.
func serveHTTP(actors *run.Group, server *http.Server, listener net.Listener) {
	ended := make(chan struct{})
	actors.Add(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
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
