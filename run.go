package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// runCmd stands in front of a backend until it is told to stop.
type runCmd struct {
	Config  string `env:"PILOTLIGHT_CONFIG" help:"The configuration file; without one, --backend or --onnx says enough." placeholder:"FILE" short:"c"`
	Backend string `help:"The backend: host:port, http://host:port/base or unix:/path." placeholder:"ADDRESS"`
	Onnx    string `help:"Serve this ONNX model from a worker of our own, instead of a backend." placeholder:"[NAME=]PATH"`
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
	if c.Onnx != "" { // a file named by hand is there or was misspelt; one named in a file may come with a volume
		if _, err := os.Stat(loaded.Backend.ONNX.Models[0].Path); err != nil {
			return fmt.Errorf("open the model that --onnx names: %w", err)
		}
	}
	resolver := std.resolver()
	if resolver.Grace, err = config.Grace(std.env); err != nil {
		return err
	}
	logger, level := std.logger(loaded.Telemetry.Log)
	for _, warning := range warnings {
		logger.Warn("the configuration is strange", "problem", warning.String())
	}
	p, err := newPilot(resolver.Resolve(loaded), logger) //nolint:contextcheck // what it makes outlives ctx, which only says when the drain begins
	if err != nil {
		return err
	}
	defer p.close() //nolint:contextcheck // ctx has ended by then
	if p.scratch != "" {
		std.remove(p.scratch)
	}
	loadBallast()
	listeners, err := p.listen(ctx)
	if err != nil {
		return err
	}
	watcher := &config.Watcher{
		Source: source, Current: loaded, Fixed: fixed, Logger: logger, Counted: p.tallies.reloaded,
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
		name, path, named := strings.Cut(c.Onnx, "=")
		if !named {
			name, path = strings.TrimSuffix(filepath.Base(c.Onnx), filepath.Ext(c.Onnx)), c.Onnx
		}
		source.Overrides = append(source.Overrides, config.Override{Flag: "--onnx", Path: "backend.onnx.models", Set: func(loaded *config.Config) {
			loaded.Backend.HTTP, loaded.Backend.GRPC = units.Address{}, units.Address{}
			loaded.Backend.ONNX.Models = []config.ONNXModelConfig{{Name: name, Path: path}}
		}})
	}

	return source
}
