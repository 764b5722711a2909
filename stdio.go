package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/proxy"
)

// stdio is what a command may touch of the process it runs in.
type stdio struct {
	in       io.Reader
	out, err io.Writer
	env      []string

	mu       sync.Mutex
	leftover []string
}

// remove makes sure that a folder does not outlive the process, whichever way that ends, unless it is killed.
func (s *stdio) remove(folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leftover = append(s.leftover, folder)
}

// tidy removes what must not be left behind.
func (s *stdio) tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, folder := range s.leftover {
		_ = os.RemoveAll(folder)
	}
}

// logger writes to err as the configuration says; its level can be changed.
func (s *stdio) logger(c telemetry.LogConfig) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(c.Level.Slog())
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	if c.Format == telemetry.FormatText || (c.Format == telemetry.FormatAuto && s.terminal() == telemetry.FormatText) {
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
func (s *stdio) terminal() telemetry.LogFormat {
	if file, isFile := s.err.(*os.File); isFile && term.IsTerminal(int(file.Fd())) {
		return telemetry.FormatText
	}

	return telemetry.FormatJSON
}

// resolver says what "auto" means on this machine.
func (s *stdio) resolver() config.Resolver {
	return config.Resolver{
		Memory:     proxy.ResolveMemory,
		Threads:    runtime.GOMAXPROCS(0),
		TokenFile:  filepath.Join(runtimeDir(s.env), "admin-token"),
		RecordFile: filepath.Join(runtimeDir(s.env), "warm.json"),
		LogFormat:  s.terminal(),
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
