package warmup

import (
	"context"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/calm"
)

const (
	// backgroundAfter is how long the background leaves the backend to the users who come first.
	backgroundAfter = 10 * time.Second
	// backgroundRest is how many times as long as the last volley took the background rests after it: it takes a quarter of one request's share at most.
	backgroundRest = 3
	// occupiedLook is how often it is asked whether users are still there.
	occupiedLook = 100 * time.Millisecond
)

// turn is where requests wait until the machine has room for them.
type turn struct {
	// one holds the token of whoever looks; the others find what it has found.
	one chan struct{}
	// latest is the time from which on nobody is put off; zero until somebody was to begin. Guarded by Runner.mu, as is begun.
	latest time.Time
	// begun is true once one was let through: from then on only the suspension counts.
	begun bool
}

// room waits, with the trigger "calm", until a request may be sent: the first one until the machine is calm, the others while it is not to be used at all.
func (c *run) room(ctx context.Context) error {
	watch := c.runner.settings.Calm
	if watch == nil || c.runner.settings.Config.Trigger != TriggerCalm {
		return nil
	}
	select {
	case c.turn.one <- struct{}{}:
		defer func() { <-c.turn.one }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	most := calm.Go
	c.runner.mu.Lock()
	if c.turn.latest.IsZero() {
		c.turn.latest = time.Now().Add(c.runner.settings.Config.Pressure.Latest.Std())
	}
	if c.turn.begun {
		most = calm.Delay
	}
	latest := c.turn.latest
	c.runner.mu.Unlock()
	resume := c.limits.pause()
	defer resume()
	err := watch.Until(ctx, most, latest, func(why string) { c.putOff(ctx, why) })
	c.runner.mu.Lock()
	c.turn.begun = c.turn.begun || err == nil
	c.runner.mu.Unlock()

	return err
}

// putOff tells why requests wait; an empty text says that they do no longer.
func (c *run) putOff(ctx context.Context, why string) {
	c.runner.mu.Lock()
	before := c.waitsFor
	c.waitsFor = why
	c.runner.mu.Unlock()
	switch {
	case before == "":
		c.runner.logger.InfoContext(ctx, "the warm-up waits for a calm machine", "because", why, "latest", c.runner.settings.Config.Pressure.Latest.Std())
	case why == "":
		c.runner.logger.InfoContext(ctx, "the warm-up goes on")
	}
	c.emit(Event{Kind: PutOff, Text: why})
}
