package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/oklog/run"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy"
)

// runCmd stands in front of a backend until it is told to stop.
type runCmd struct {
	Config  string `env:"PILOTLIGHT_CONFIG" help:"The configuration file; without one, --backend or --onnx says enough." placeholder:"FILE" short:"c"`
	Backend string `help:"The backend: host:port, http://host:port/base or unix:/path." placeholder:"ADDRESS"`
	Onnx    string `help:"Serve this ONNX model from a worker of our own, instead of a backend." placeholder:"MODEL"`
	Data    string `help:"Where users' requests are accepted." placeholder:"ADDRESS"`
	Health  string `help:"Where probes are answered." placeholder:"ADDRESS"`
	Admin   string `help:"Where the status is shown; loopback only." placeholder:"ADDRESS"`
	Strict  bool   `help:"Refuse a configuration that is only strange, such as limits that contradict each other."`
}

// Run loads the configuration, wires the rooms, serves until ctx ends, and drains.
func (c *runCmd) Run(ctx context.Context, std *stdio) error {
	source := c.source(std)
	loaded, warnings, err := config.Load(source)
	if err != nil {
		return err
	}
	resolver := std.resolver()
	if resolver.Grace, err = config.Grace(std.env); err != nil {
		return err
	}
	logger, level := std.logger(loaded.Telemetry.Log)
	for _, warning := range warnings {
		logger.Warn("the configuration is strange", "problem", warning.String())
	}
	p, err := newPilot(resolver.Resolve(loaded), logger)
	if err != nil {
		return err
	}
	defer p.close()
	listeners, err := p.listen(ctx)
	if err != nil {
		return err
	}
	watcher := &config.Watcher{
		Source: source, Current: loaded, Fixed: fixed, Logger: logger,
		Apply: func(next *config.Config) error {
			level.Set(next.Telemetry.Log.Level.Slog())

			return p.reconfigure(resolver.Resolve(next))
		},
	}

	return p.serve(ctx, listeners, watcher)
}

// source says where the configuration comes from: the file, the environment, the flags.
func (c *runCmd) source(std *stdio) config.Source {
	source := config.Source{Path: c.Config, Env: std.env, Strict: c.Strict, Check: checkPlan}
	for _, flag := range []config.Override{
		{Flag: "--backend", Path: "backend.http", Text: c.Backend},
		{Flag: "--data", Path: "listen.data", Text: c.Data},
		{Flag: "--health", Path: "listen.health", Text: c.Health},
		{Flag: "--admin", Path: "listen.admin", Text: c.Admin},
	} {
		if flag.Text != "" {
			source.Overrides = append(source.Overrides, flag)
		}
	}
	if c.Onnx != "" {
		source.Overrides = append(source.Overrides, config.Override{Flag: "--onnx", Path: "backend.onnx.models", Set: func(loaded *config.Config) {
			loaded.Backend.HTTP, loaded.Backend.GRPC = units.Address{}, units.Address{}
			name := strings.TrimSuffix(filepath.Base(c.Onnx), filepath.Ext(c.Onnx))
			loaded.Backend.ONNX.Models = []config.ONNXModelConfig{{Name: name, Path: c.Onnx}}
		}})
	}

	return source
}

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
	if watcher.Source.Path != "" {
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
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

// drain leaves in order: readiness goes at once; new requests are still served while endpoint lists elsewhere catch up; then no connection is accepted any more,
// and what is in flight, or held, gets what is left of the limit.
func (p *pilot) drain(ctx context.Context) error {
	drain := p.present().Drain
	limit := time.Now().Add(drain.Limit.Value.Std())
	if err := p.machine.Move("", health.Draining, "asked to stop"); err != nil {
		p.logger.Debug("a move was refused", "error", err)
	}
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
