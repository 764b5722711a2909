package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup/onnx"
)

// onnxCmd is "pilotlight onnx": a model server of its own, and the worker behind "pilotlight run --onnx".
type onnxCmd struct {
	Model      []string          `help:"ONNX file to serve, as PATH or NAME=PATH; may be given several times." placeholder:"[NAME=]PATH" required:"" sep:"none" short:"m"`
	Name       string            `help:"Name of the model, when there is one. Default: the file's name without its ending."`
	Listen     string            `default:"127.0.0.1:8000" help:"Where to listen, HTTP and gRPC alike: host:port or unix:/path."`
	Provider   onnx.Provider     `default:"cpu" help:"What to compute on: cpu, cuda or tensorrt."`
	Option     map[string]string `help:"Option of the provider, by the name that ONNX Runtime gives it; may be given several times." placeholder:"NAME=VALUE"`
	AllowCPU   bool              `help:"Run on the CPU what the provider cannot, instead of failing." name:"allow-cpu"`
	Threads    int               `default:"1" help:"Threads that work on one inference."`
	Runs       int               `help:"Inferences that run at the same time. Default: processors divided by threads."`
	Lazy       bool              `help:"Say ready at once and load at the first inference."`
	MaxBody    units.Size        `default:"64MiB" help:"Largest request."`
	ParentPipe bool              `help:"End when standard input ends: the worker must not outlive its parent." hidden:""`
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
