package onnx

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// version is the only version that a model has.
const version = "1"

// model is a served model, loaded or not.
type model struct {
	Model

	signature signature
	load      func() (*session, error)
	log       *slog.Logger

	mu      sync.Mutex
	loading *loading // of the present, or of the successful past
}

// loading is one attempt at loading, which any number of requests may wait for.
type loading struct {
	done    chan struct{} // closed once session and err are set
	session *session
	err     error
}

// loaded returns the session when there is one.
func (m *model) loaded() *session {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loading == nil {
		return nil
	}
	select {
	case <-m.loading.done:
		return m.loading.session
	default:
		return nil
	}
}

// ensure returns the session and loads it first when it has to. Whoever comes while it loads waits for the same attempt; a
// caller who leaves does not end it. After a failure the next caller tries again.
func (m *model) ensure(ctx context.Context) (*session, error) {
	m.mu.Lock()
	attempt := m.loading
	if attempt == nil {
		attempt = &loading{done: make(chan struct{})}
		m.loading = attempt
		go m.attempt(attempt)
	}
	m.mu.Unlock()
	select {
	case <-attempt.done:
		return attempt.session, attempt.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *model) attempt(attempt *loading) {
	start := time.Now()
	defer func() {
		if recovered := recover(); recovered != nil {
			attempt.err = fmt.Errorf("load model %s: %v\n%s", m.Path, recovered, debug.Stack())
		}
		if attempt.err != nil {
			m.mu.Lock()
			m.loading = nil
			m.mu.Unlock()
			m.log.Error("model did not load", "model", m.Name, "error", attempt.err)
		} else {
			m.log.Info("model is loaded", "model", m.Name, "path", m.Path, "took", time.Since(start).String())
		}
		close(attempt.done)
	}()
	attempt.session, attempt.err = m.load()
}
