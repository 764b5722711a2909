package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// runCmd stands in front of a backend until it is told to stop.
type runCmd struct {
	Config, Backend, Onnx, Data, Health, Admin string
	Strict                                     bool
}

func (c *runCmd) Command() *cobra.Command {
	command := &cobra.Command{Use: "run", Short: "Stand in front of a backend: warm it, hold early requests, forward the rest."}
	flags := command.Flags()
	configFlag(flags, &c.Config, "The configuration `FILE`; without one, --backend or --onnx says enough.")
	flags.StringVar(&c.Backend, "backend", "", "The backend's `ADDRESS`: host:port, http://host:port/base or unix:/path.")
	flags.StringVar(&c.Onnx, "onnx", "", "Serve this ONNX model, `[NAME=]PATH`, from a worker of our own, instead of a backend.")
	flags.StringVar(&c.Data, "data", "", "The `ADDRESS` where users' requests are accepted.")
	flags.StringVar(&c.Health, "health", "", "The `ADDRESS` where probes are answered.")
	flags.StringVar(&c.Admin, "admin", "", "The `ADDRESS` where the status is shown; loopback only.")
	flags.BoolVar(&c.Strict, "strict", false, "Refuse a configuration that is only strange, such as limits that contradict each other.")

	return command
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
