//go:build !linux

package backend

import (
	"context"
	"time"
)

// metronome exists on Linux only.
type metronome struct{}

func newMetronome() *metronome { return nil }

func (*metronome) close() {}

func (*metronome) wait(ctx context.Context, d time.Duration) error { return wait(ctx, d) }

func processorTime() time.Duration { return 0 }
