package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup/onnx"
)

// onnxCmd is "pilotlight onnx": a model server of its own, and the worker behind "pilotlight run --onnx".
type onnxCmd struct {
	Model         []string
	Name, Listen  string
	Provider      onnx.Provider
	Option        map[string]string
	AllowCPU      bool
	Threads, Runs int
	Lazy          bool
	MaxBody       units.Size
	ParentPipe    bool
}

func (c *onnxCmd) Command() *cobra.Command {
	command := &cobra.Command{Use: "onnx", Short: "Serve ONNX models by the Open Inference Protocol."}
	flags := command.Flags()
	flags.StringArrayVarP(&c.Model, "model", "m", nil, "ONNX file to serve, as `[NAME=]PATH`; may be given several times.")
	require(command, "model")
	flags.StringVar(&c.Name, "name", "", "The model's `NAME`, when there is one. Default: the file's name without its ending.")
	flags.StringVar(&c.Listen, "listen", "127.0.0.1:8000", "The `ADDRESS` where to listen, HTTP and gRPC alike: host:port or unix:/path.")
	flags.TextVar(&c.Provider, "provider", onnx.CPU, "The `PROVIDER` to compute on: cpu, cuda or tensorrt.")
	flags.Func("option", "Option of the provider, by the name that ONNX Runtime gives it, as `NAME=VALUE`; may be given several times.", c.addOption)
	flags.BoolVar(&c.AllowCPU, "allow-cpu", false, "Run on the CPU what the provider cannot, instead of failing.")
	flags.IntVar(&c.Threads, "threads", 1, "Threads that work on one inference.")
	flags.IntVar(&c.Runs, "runs", 0, "Inferences that run at the same time. Default: processors divided by threads.")
	flags.BoolVar(&c.Lazy, "lazy", false, "Say ready at once and load at the first inference.")
	flags.TextVar(&c.MaxBody, "max-body", units.Size(onnx.DefaultMaxBody), "The `SIZE` of the largest request.")
	flags.BoolVar(&c.ParentPipe, "parent-pipe", false, "End when standard input ends: the worker must not outlive its parent.")
	flags.Lookup("parent-pipe").Hidden = true

	return command
}

// Run serves until ctx ends.
func (c *onnxCmd) Run(ctx context.Context, std *stdio) error {
	logger, _ := std.logger(telemetry.LogConfig{Level: telemetry.LevelInfo})
	models, err := c.models()
	if err != nil {
		return err
	}
	server, err := onnx.NewServer(onnx.Settings{
		Models: models, Provider: c.Provider, Options: c.Option, AllowCPU: c.AllowCPU, Threads: c.Threads, Runs: c.Runs,
		Lazy: c.Lazy, MaxBody: int64(c.MaxBody), Version: version(), Logger: logger,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if c.ParentPipe {
		go func() {
			defer stop()
			_, _ = io.Copy(io.Discard, std.in) // an error ends the pipe as well
			logger.Info("parent is gone")
		}()
	}
	listener, err := onnx.Listen(ctx, c.Listen)
	if err != nil {
		return err
	}

	return server.Serve(ctx, listener)
}

// addOption reads one --option. Its value may hold commas, as a list of shapes does, which pflag's own maps would split.
func (c *onnxCmd) addOption(text string) error {
	name, value, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("expected NAME=VALUE, got %q", text)
	}
	if c.Option == nil {
		c.Option = map[string]string{}
	}
	c.Option[name] = value

	return nil
}

// models reads --model and --name.
func (c *onnxCmd) models() ([]onnx.Model, error) {
	models := make([]onnx.Model, len(c.Model))
	for i, text := range c.Model {
		name, path, named := strings.Cut(text, "=")
		if !named {
			name, path = "", text
		}
		models[i] = onnx.Model{Name: name, Path: path}
	}
	if c.Name == "" {
		return models, nil
	}
	if len(models) != 1 {
		return nil, errors.New("name a model: --name goes with one --model only, write --model NAME=PATH")
	}
	if models[0].Name != "" && models[0].Name != c.Name {
		return nil, fmt.Errorf("name a model: --name says %q and --model says %q", c.Name, models[0].Name)
	}
	models[0].Name = c.Name

	return models, nil
}
