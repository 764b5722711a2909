package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// worker keeps a child process of the same program running. Native code lives there, never in the proxy: a crash in it, or a
// signal handler that it replaces, must not take held requests along.
type worker struct {
	// arguments are those of the command in our own program.
	arguments []string
	// died is told why a life ended that was not asked to.
	died   func(cause error)
	logger *slog.Logger
}

const (
	// firstRest and longestRest bound the pause before a worker that died is started again; soundLife is how long it must have
	// lived for the pause to start over.
	firstRest   = 250 * time.Millisecond
	longestRest = 30 * time.Second
	soundLife   = time.Minute
	// workerPatience is how long a worker gets to end once its pipe is closed.
	workerPatience = 5 * time.Second
	// longestLine bounds one line of a worker's log.
	longestLine = 64 << 10
)

// Run starts the worker and restarts it, with back-off, whenever it ends, until ctx ends.
func (w *worker) Run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own program: %w", err)
	}
	rest := firstRest
	for {
		started := time.Now()
		death := w.live(ctx, self)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end, and how it did makes no difference
		}
		if time.Since(started) > soundLife {
			rest = firstRest
		}
		w.died(death)
		w.logger.Error("the worker has ended and will be started again", "error", death, "in", rest)
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()

			return nil
		}
		rest = min(2*rest, longestRest)
	}
}

// live is one life of the worker. It ends when the process does; when ctx ends its pipe is closed, which asks it to end.
func (w *worker) live(ctx context.Context, self string) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, w.arguments...) //nolint:gosec // our own program
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("open the worker's pipe: %w", err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("open the worker's log: %w", err)
	}
	cmd.WaitDelay = workerPatience
	// Ctrl-c goes to the whole group of a terminal's process. The worker serves on while we drain; its pipe ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	w.logger.Info("the worker has started", "pid", cmd.Process.Pid)
	stop := context.AfterFunc(ctx, func() {
		_ = pipe.Close()
		time.AfterFunc(workerPatience, func() { _ = cmd.Process.Kill() })
	})
	defer stop()
	words := w.relog(ctx, stderr)
	err = cmd.Wait()
	switch {
	case words != "":
		return fmt.Errorf("run the worker: %s", words)
	case err != nil:
		return fmt.Errorf("run the worker: %w", err)
	default:
		return errors.New("run the worker: it ended by itself")
	}
}

// relog passes the worker's log on, line by line, until it ends, and returns the last words that were no line of a log: why it could not go on.
func (w *worker) relog(ctx context.Context, stderr io.Reader) (words string) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		level, message, attributes, ok := parseLog(lines.Bytes())
		if !ok {
			words = strings.TrimPrefix(lines.Text(), "pilotlight: ")
			level, message, attributes = slog.LevelWarn, "the worker says", []any{slog.String("text", lines.Text())}
		}
		w.logger.Log(ctx, level, message, attributes...)
	}
	// A line beyond the bound must not stop the worker from writing.
	_, _ = io.Copy(io.Discard, stderr)

	return words
}

// parseLog reads a line of slog's JSON.
func parseLog(line []byte) (level slog.Level, message string, attributes []any, ok bool) {
	fields := map[string]any{}
	if json.Unmarshal(line, &fields) != nil {
		return 0, "", nil, false
	}
	for key, value := range fields {
		switch text, _ := value.(string); {
		case key == slog.LevelKey:
			_ = level.UnmarshalText([]byte(text))
		case key == slog.MessageKey:
			message = strings.TrimSpace(text)
		case key != slog.TimeKey:
			attributes = append(attributes, slog.Any(key, value))
		}
	}

	return level, message, attributes, true
}

// embed makes the backend a worker of our own, behind a socket that only this user may open.
func (p *pilot) embed() error {
	scratch, err := os.MkdirTemp("", "pilotlight-")
	if err != nil {
		return fmt.Errorf("make a folder for the worker's socket: %w", err)
	}
	p.scratch = scratch
	p.address = units.Address{Network: "unix", Host: filepath.Join(scratch, "worker.sock")}
	onnx := p.config.Backend.ONNX
	arguments := []string{"onnx", "--parent-pipe", "--listen", "unix:" + p.address.Host, "--provider", onnx.Provider.String()}
	if onnx.Threads.Set {
		arguments = append(arguments, fmt.Sprintf("--threads=%d", onnx.Threads.Value))
	}
	if onnx.AllowCPU {
		arguments = append(arguments, "--allow-cpu")
	}
	for key, value := range onnx.Options {
		arguments = append(arguments, "--option", key+"="+value)
	}
	for _, model := range onnx.Models {
		arguments = append(arguments, "--model", model.Name+"="+model.Path)
	}
	p.worker = &worker{arguments: arguments, logger: p.logger, died: func(cause error) {
		p.machine.Raise("", health.CodeBackendUnreachable, cause.Error())
	}}

	return nil
}
