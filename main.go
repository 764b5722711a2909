// Command pilotlight keeps users off a model server until it is really fast.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/proxy"
)

// cli is the table of contents: each command is a struct in a file of its own name.
type cli struct {
	Run      runCmd      `cmd:"" help:"Stand in front of a backend: warm it, hold early requests, forward the rest."`
	Demo     demoCmd     `cmd:"" help:"Show a really cold model server with and without Pilotlight."`
	Validate validateCmd `cmd:"" help:"Check a configuration and print it with every \"auto\" resolved."`
	Onnx     onnxCmd     `cmd:"" help:"Serve ONNX models by the Open Inference Protocol."`
	Schema   schemaCmd   `cmd:"" help:"Print the JSON schema of the configuration."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// stdio is what a command may touch of the process it runs in.
type stdio struct {
	in       io.Reader
	out, err io.Writer
	env      []string
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
	ctx, stop := untilSignal()
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
	_, _ = fmt.Fprintf(std.err, "pilotlight: %v\n", err)
	if refused := (*config.RefusalError)(nil); errors.As(err, &refused) {
		return refused.ExitCode()
	}

	return exitFailure
}

// untilSignal returns a context that the first SIGTERM or SIGINT ends. The second one ends the process.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailure)
	}()

	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// logger writes to err as the configuration says; its level can be changed.
func (s *stdio) logger(c config.LogConfig) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(c.Level.Slog())
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if c.Format == config.FormatText || (c.Format == config.FormatAuto && s.terminal() == config.FormatText) {
		return slog.New(slog.NewTextHandler(s.err, options)), level
	}

	return slog.New(slog.NewJSONHandler(s.err, options)), level
}

// readable writes durations as text: nobody reads nanoseconds.
func readable(_ []string, attribute slog.Attr) slog.Attr {
	if attribute.Value.Kind() == slog.KindDuration {
		attribute.Value = slog.StringValue(attribute.Value.Duration().String())
	}

	return attribute
}

// terminal is what log format "auto" means here: text on a terminal, JSON otherwise.
func (s *stdio) terminal() config.LogFormat {
	if file, isFile := s.err.(*os.File); isFile && term.IsTerminal(int(file.Fd())) {
		return config.FormatText
	}

	return config.FormatJSON
}

// resolver says what "auto" means on this machine.
func (s *stdio) resolver() config.Resolver {
	return config.Resolver{
		Memory:    proxy.ResolveMemory,
		Threads:   runtime.GOMAXPROCS(0),
		TokenFile: filepath.Join(runtimeDir(s.env), "admin-token"),
		LogFormat: s.terminal(),
	}
}

// runtimeDir is where files live that need not outlive the boot.
func runtimeDir(env []string) string {
	for _, variable := range env {
		if dir, found := strings.CutPrefix(variable, "XDG_RUNTIME_DIR="); found && dir != "" {
			return filepath.Join(dir, "pilotlight")
		}
	}

	return filepath.Join(os.TempDir(), fmt.Sprintf("pilotlight-%d", os.Getuid()))
}
