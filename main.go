// Command pilotlight keeps users off a model server until it is really fast.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
)

// verb is a command of the command line: a struct in a file of its own name, with what the flags say in its fields.
type verb interface {
	// Command says what it is called and takes; reading the flags fills the verb.
	Command() *cobra.Command
	Run(ctx context.Context, std *stdio) error
}

// commands is the table of contents. What "run" runs is a pilot: pilot.go wires the rooms, bridges.go is what they ask of one another,
// observe.go what is told of them, serve.go runs them, publish.go what Envoy and gRPC clients are told of them, drain.go is how they leave, reload.go what may change in between.
func commands(choose func(verb)) *cobra.Command {
	leaf := func(v verb) *cobra.Command {
		command := v.Command()
		command.Flags().SortFlags = false
		if command.Args == nil {
			command.Args = cobra.NoArgs
		}
		command.Run = func(*cobra.Command, []string) { choose(v) }

		return command
	}
	warm := leaf(&warmCmd{}) // by itself it warms now
	warm.Use, warm.Short = "warm", "Warm a backend once, or import what warms another server."
	warm.AddCommand(leaf(&warmCmd{}), leaf(&warmImportCmd{}))

	return group("pilotlight", "Keeps users off a model server until it is really fast.",
		leaf(&runCmd{}),
		warm,
		leaf(&demoCmd{}),
		group("shapes", "Show the shapes that users were seen to send, as a plan.", leaf(&shapesExportCmd{})),
		leaf(&validateCmd{}),
		leaf(&probeCmd{}),
		leaf(&drainCmd{}),
		group("xds", "Show what Envoy and gRPC clients in the same pod are told.", leaf(&xdsSnapshotCmd{}), leaf(&xdsBootstrapCmd{})),
		leaf(&onnxCmd{}),
		leaf(&schemaCmd{}),
		leaf(&versionCmd{}),
	)
}

// group is a command that is nothing without one of those below it.
func group(name, about string, below ...*cobra.Command) *cobra.Command {
	names := make([]string, len(below))
	for i, command := range below {
		names[i] = command.Name()
	}
	command := &cobra.Command{Use: name, Short: about, DisableFlagsInUseLine: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return fmt.Errorf("expected one of %s", strings.Join(names, ", "))
	}}
	command.AddCommand(below...)

	return command
}

// Exit codes, besides 0.
const (
	exitFailure = 1
	// exitUsage means that the command line or the configuration was refused.
	exitUsage = 2
)

func main() {
	cobra.EnableCommandSorting = false // help tells them as commands does, the important ones first
	std := &stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ()}
	os.Exit(execute(std, os.Args[1:]))
}

// execute parses, runs one command, prints at most one error, and returns the exit code.
func execute(std *stdio, arguments []string) int {
	chosen, err := read(std, arguments)
	if err != nil {
		_, _ = fmt.Fprintf(std.err, "pilotlight: %v (see pilotlight --help)\n", err)

		return exitUsage
	}
	if chosen == nil {
		return 0 // --help has been answered
	}
	defer std.tidy()
	ctx, stop := untilSignal(std)
	defer stop()
	if err := chosen.Run(ctx, std); err != nil {
		return complain(std, err)
	}

	return 0
}

// read returns the command that the arguments choose, or none if they asked for help. Cobra only reads them, so that what it calls an error is one of usage.
func read(std *stdio, arguments []string) (chosen verb, err error) {
	root := commands(func(v verb) { chosen = v })
	root.CompletionOptions.DisableDefaultCmd = true
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetArgs(arguments)
	err = root.Execute()

	return chosen, err
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
