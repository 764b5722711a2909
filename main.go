// Command pilotlight keeps users off a model server until it is really fast.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
)

// cli is the table of contents: each command is a struct in a file of its own name. What "run" runs is a pilot: pilot.go wires the rooms,
// bridges.go is what they ask of one another, observe.go what is told of them, serve.go runs them, publish.go what Envoy and gRPC clients are told of them, drain.go is how they leave, reload.go what may change in between.
type cli struct {
	Run      runCmd      `cmd:"" help:"Stand in front of a backend: warm it, hold early requests, forward the rest."`
	Warm     warmCmds    `cmd:"" help:"Warm a backend once, or import what warms another server."`
	Demo     demoCmd     `cmd:"" help:"Show a really cold model server with and without Pilotlight."`
	Shapes   shapesCmd   `cmd:"" help:"Show the shapes that users were seen to send, as a plan."`
	Validate validateCmd `cmd:"" help:"Check a configuration and print it with every \"auto\" resolved."`
	Probe    probeCmd    `cmd:"" help:"Ask the Pilotlight of this pod how it is, as an exec probe does: one line, exit code 0 or 1."`
	Drain    drainCmd    `cmd:"" help:"Let the Pilotlight of this pod begin to drain, as a preStop hook does."`
	XDS      xdsCmd      `cmd:"" help:"Show what Envoy and gRPC clients in the same pod are told." name:"xds"`
	Onnx     onnxCmd     `cmd:"" help:"Serve ONNX models by the Open Inference Protocol."`
	Schema   schemaCmd   `cmd:"" help:"Print the JSON schema of the configuration."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// Exit codes, besides 0.
const (
	exitFailure = 1
	// exitUsage means that the command line or the configuration was refused.
	exitUsage = 2
)

func main() {
	std := &stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ()}
	os.Exit(execute(std, os.Args[1:]))
}

// execute parses, runs one command, prints at most one error, and returns the exit code.
func execute(std *stdio, arguments []string) int {
	var commands cli
	exit := -1
	parser, err := kong.New(&commands,
		kong.Name("pilotlight"),
		kong.Description("Keeps users off a model server until it is really fast."),
		kong.UsageOnError(),
		kong.Writers(std.out, std.err),
		kong.Exit(func(code int) { exit = code }),
	)
	if err != nil {
		return complain(std, err)
	}
	parsed, err := parser.Parse(arguments)
	if exit >= 0 {
		return exit // --help has been answered
	}
	if err != nil {
		_, _ = fmt.Fprintf(std.err, "pilotlight: %v (see pilotlight --help)\n", err)

		return exitUsage
	}
	defer std.tidy()
	ctx, stop := untilSignal(std)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.Bind(std)
	if err := parsed.Run(); err != nil {
		return complain(std, err)
	}

	return 0
}

// complain prints an error and returns the exit code that goes with it.
func complain(std *stdio, err error) int {
	if refused := (*config.RefusalError)(nil); errors.As(err, &refused) {
		_, _ = fmt.Fprintln(std.err, err) // each line begins with its place, which editors read

		return refused.ExitCode()
	}
	_, _ = fmt.Fprintf(std.err, "pilotlight: %v\n", err)

	return exitFailure
}

// untilSignal returns a context that the first SIGTERM or SIGINT ends. The second one ends the process.
func untilSignal(std *stdio) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ended := make(chan struct{})
	go func() {
		for _, act := range []func(){cancel, func() {
			std.tidy()
			os.Exit(exitFailure)
		}} {
			select {
			case <-signals:
				act()
			case <-ended:
				return
			}
		}
	}()

	return ctx, func() {
		signal.Stop(signals)
		cancel()
		close(ended)
	}
}
