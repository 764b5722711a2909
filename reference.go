package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// referenceLook is the distance of two looks at a reference that is loading its model.
const referenceLook = 20 * time.Millisecond

// startReference starts a worker that answers what the ONNX model at path answers, and waits until it has loaded it. It computes on the CPU: the GPU is the
// backend's.
func startReference(ctx context.Context, path string, logger *slog.Logger) (*warmup.Reference, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own program: %w", err)
	}
	scratch, err := os.MkdirTemp("", "pilotlight-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the worker's socket: %w", err)
	}
	socket := filepath.Join(scratch, "reference.sock")
	client, err := backend.NewClient(backend.ClientSettings{Network: "unix", Address: socket, Version: version()})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(scratch))
	}
	one := &worker{
		arguments: []string{"onnx", "--parent-pipe", "--listen", "unix:" + socket, "--model", warmup.ReferenceModel + "=" + path},
		logger:    logger.With("worker", "reference"),
	}
	// A try that runs out of time must not take it along: the next one asks it again.
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	gone := make(chan struct{})
	var death error // final once gone is closed
	go func() {
		defer close(gone)
		death = one.live(life, self)
	}()
	end := func() {
		stop()
		<-gone
		_ = os.RemoveAll(scratch)
	}
	loaded := awaitReference(ctx, backend.NewOIP(client), gone)
	if loaded == nil {
		return &warmup.Reference{Ask: client.Do, End: end}, nil
	}
	end()
	if errors.Is(loaded, errReferenceGone) {
		return nil, death
	}

	return nil, loaded
}

var errReferenceGone = errors.New("it has ended")

// awaitReference waits until a reference has loaded its model, or is gone.
func awaitReference(ctx context.Context, dialect *backend.OIP, gone <-chan struct{}) error {
	look := time.NewTicker(referenceLook)
	defer look.Stop()
	for {
		select {
		case <-gone:
			return errReferenceGone
		case <-ctx.Done():
			return fmt.Errorf("wait until it has loaded its model: %w", context.Cause(ctx))
		case <-look.C:
			if dialect.Ready(ctx, warmup.ReferenceModel) == nil {
				return nil
			}
		}
	}
}
