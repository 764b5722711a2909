package onnx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Server answers the Open Inference Protocol for its models. It can be served once.
type Server struct {
	settings Settings
	library  string // the version of ONNX Runtime
	models   []*model
	slots    chan struct{} // one for each inference that may run
	waiting  atomic.Int64
	// life is held for reading by each inference that runs, and for writing when the sessions end.
	life  sync.RWMutex
	ended bool
}

// NewServer opens ONNX Runtime and reads the heads of the models; it loads none.
func NewServer(settings Settings) (*Server, error) {
	settings, err := settings.resolve()
	if err != nil {
		return nil, err
	}
	s := &Server{settings: settings, slots: make(chan struct{}, settings.Runs)}
	for _, one := range settings.Models {
		head, err := readSignature(one.Path)
		if err != nil {
			return nil, err
		}
		s.models = append(s.models, &model{
			Model: one, signature: head, log: settings.Logger,
			load: func() (*session, error) { return newSession(one.Path, head, settings) },
		})
	}
	path, found, err := openLibrary(FindLibrary(settings.Library, os.Getenv))
	if err != nil {
		return nil, err
	}
	s.library = found
	settings.Logger.Debug("ONNX Runtime is open", "path", path, "version", found)

	return s, nil
}

// Serve answers on the listener until ctx ends; requests then have [Settings.Grace] to end. It loads the models first of all,
// unless the server is lazy, and answers while it does. It returns nil when it was told to stop, and an error when a model
// did not load.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	// The time is taken here because the kernel accepts connections from the moment that there is a listener.
	s.settings.Logger.Info("worker listens", "address", listener.Addr().String(), "listen", time.Now().Format(time.RFC3339Nano),
		"runtime", s.library, "provider", s.settings.Provider.String(), "lazy", s.settings.Lazy)
	// Requests must outlive the order to stop, for as long as they are given.
	working, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	server, calls := s.httpServer(working)
	served, failed := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if !s.settings.Lazy {
		go func() {
			for _, one := range s.models {
				if _, err := one.ensure(ctx); err != nil {
					failed <- err

					return
				}
			}
		}()
	}
	var err error
	select {
	case err = <-served:
		err = fmt.Errorf("serve %s: %w", listener.Addr(), err)
		served <- nil
	case err = <-failed:
		if ctx.Err() != nil {
			err = nil // told to stop while loading
		}
	case <-ctx.Done():
	}
	err = errors.Join(err, s.stop(ctx, server, abandon))
	calls.Stop()
	if late := <-served; !errors.Is(late, http.ErrServerClosed) {
		err = errors.Join(err, late)
	}

	return errors.Join(err, s.close())
}

// stop ends the HTTP server: requests in flight end by themselves within the grace, then they are ended.
func (s *Server) stop(ctx context.Context, server *http.Server, abandon func()) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.settings.Grace)
	defer cancel()
	err := server.Shutdown(grace)
	if err == nil {
		return nil
	}
	abandon()

	return errors.Join(fmt.Errorf("stop worker: requests did not end in %s: %w", s.settings.Grace, err), server.Close())
}

// close gives the models' memory back. Where a load or a run that nobody can stop still goes on, it leaves them alone: the
// process is about to end.
func (s *Server) close() error {
	if !s.life.TryLock() {
		return nil
	}
	defer s.life.Unlock()
	s.ended = true
	var err error
	for _, one := range s.models {
		if loaded := one.loaded(); loaded != nil {
			err = errors.Join(err, loaded.close())
		}
	}

	return err
}

// find returns a model by its name, and says so when there is no such model or version.
func (s *Server) find(name, wanted string) (*model, error) {
	for _, one := range s.models {
		if one.Name != name {
			continue
		}
		if wanted != "" && wanted != version {
			return nil, faultf(unknown, "model %q: no version %q, expected %q", name, shorten([]byte(wanted)), version)
		}

		return one, nil
	}

	return nil, faultf(unknown, "model %q: no such model", shorten([]byte(name)))
}

// ready says whether one model may be asked.
func (s *Server) ready(m *model) bool { return s.settings.Lazy || m.loaded() != nil }

// allReady says whether every model may be asked.
func (s *Server) allReady() bool {
	for _, one := range s.models {
		if !s.ready(one) {
			return false
		}
	}

	return true
}

// infer runs a request that has been checked, when its turn comes.
func (s *Server) infer(ctx context.Context, m *model, asked request) ([]tensor, error) {
	if !s.ready(m) {
		return nil, faultf(unready, "model %q is loading", m.Name)
	}
	if s.waiting.Add(1) > int64(s.settings.Queue+s.settings.Runs) {
		s.waiting.Add(-1)

		return nil, faultf(busy, "%d requests wait, which is the limit", s.settings.Queue)
	}
	defer s.waiting.Add(-1)
	loaded, err := m.ensure(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.life.RLock()
	defer s.life.RUnlock()
	if s.ended {
		return nil, faultf(unready, "the worker stops")
	}
	outputs, err := loaded.run(ctx, asked.inputs)
	if err != nil {
		return nil, err
	}

	return pick(outputs, asked.outputs), nil
}
