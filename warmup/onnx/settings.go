package onnx

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Defaults of Settings.
const (
	DefaultMaxBody = 64 << 20
	DefaultQueue   = 1024
	DefaultGrace   = 10 * time.Second
)

// Model is a file to serve and the name that requests call it by.
type Model struct {
	// Name is the file's name without its ending when empty.
	Name string
	// Path is an ONNX file. Weights in other files are found beside it.
	Path string
}

// Settings say what to serve and how.
type Settings struct {
	Models   []Model
	Provider Provider
	// Options are the provider's own, by the names that ONNX Runtime gives them.
	Options map[string]string
	// AllowCPU lets a model run on the CPU, wholly or in part, though another provider was asked for.
	AllowCPU bool
	// Threads work on one inference. 0 means 1: more than one helps a single caller and harms many.
	Threads int
	// Runs is how many inferences run at the same time. 0 means one for each processor and thread.
	Runs int
	// Queue is how many inferences may wait for their turn, or for a model to load; more are refused. 0 means DefaultQueue.
	Queue int
	// Lazy says ready at once and loads each model at its first inference.
	Lazy bool
	// MaxBody is the largest request in bytes. 0 means DefaultMaxBody.
	MaxBody int64
	// Library is the path of libonnxruntime. Empty looks for it, see [FindLibrary].
	Library string
	// Grace is how long requests may take to end once Serve has been told to stop. 0 means DefaultGrace.
	Grace time.Duration
	// Version is Pilotlight's, for the server's metadata.
	Version string
	// Logger is silent when nil.
	Logger *slog.Logger
}

// resolve returns the settings with every default filled in, or says what is wrong with them.
func (s Settings) resolve() (Settings, error) {
	if len(s.Models) == 0 {
		return s, errors.New("serve models: none given")
	}
	s.Models = append([]Model(nil), s.Models...)
	seen := map[string]string{}
	for i := range s.Models {
		one := &s.Models[i]
		if one.Name == "" {
			one.Name = strings.TrimSuffix(filepath.Base(one.Path), filepath.Ext(one.Path))
		}
		if other, taken := seen[one.Name]; taken {
			return s, fmt.Errorf("serve models: %s and %s are both named %q", other, one.Path, one.Name)
		}
		seen[one.Name] = one.Path
	}
	if s.Threads < 0 || s.Runs < 0 || s.Queue < 0 || s.MaxBody < 0 || s.Grace < 0 {
		return s, errors.New("serve models: threads, runs, queue, body and grace cannot be negative")
	}
	s.Threads = orDefault(s.Threads, 1)
	s.Runs = orDefault(s.Runs, max(1, runtime.GOMAXPROCS(0)/s.Threads))
	s.Queue = orDefault(s.Queue, DefaultQueue)
	s.MaxBody = orDefault(s.MaxBody, DefaultMaxBody)
	s.Grace = orDefault(s.Grace, DefaultGrace)
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}

	return s, nil
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}

	return value
}
