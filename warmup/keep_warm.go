package warmup

import (
	"context"
	"time"
)

// KeepWarm is for servers that are slow again when nobody has asked them for a while: it asks, and stops asking while users do.
type KeepWarm struct {
	// After is the idle time after which one synthetic request is sent.
	After time.Duration
	// Serving says whether users are served: a server that is being warmed, or is sick, is asked enough already.
	Serving func() bool
	// Idle is how long no user's request has been under way.
	Idle func() time.Duration
	// Synthetic sends one synthetic request. What it shows of the server is for the health checks to find out; here an error means nothing.
	Synthetic func(context.Context) error
}

// Run keeps warm until ctx ends.
func (k KeepWarm) Run(ctx context.Context) {
	asked := time.Now()
	for {
		quiet := min(k.Idle(), time.Since(asked))
		if quiet >= k.After && k.Serving() {
			_ = k.Synthetic(ctx)
			asked, quiet = time.Now(), 0
		}
		timer := time.NewTimer(max(k.After-quiet, k.After/20))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()

			return
		}
	}
}
