package proxy

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The causes with which our own clocks end an exchange.
var (
	errFirstByte  = errors.New("wait for the first byte of the answer: time is up")
	errStreamIdle = errors.New("wait for the next byte of the answer: time is up")
	errTotal      = errors.New("run the exchange: time is up")
)

// clock watches one attempt. Each wait has its own limit: until the first byte, counted from the end of the request, then each silence of the backend;
// time in which the client does not read counts against nobody. 0 means no limit.
type clock struct {
	limits TimeoutsConfig
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	phase phase
	since time.Time // the reader began to wait for the backend; zero while it does not
	timer *time.Timer
	total *time.Timer
}

type phase uint8

const (
	sending phase = iota
	awaiting
	streaming
	stopped
)

// start begins an attempt that cancel ends.
func (c *clock) start(limits TimeoutsConfig, cancel context.CancelCauseFunc) {
	c.limits, c.cancel = limits, cancel
	if limits.Total > 0 {
		c.total = time.AfterFunc(limits.Total.Std(), func() { cancel(errTotal) })
	}
}

// sent says that the last byte of the request was sent. It may come after the answer has begun.
func (c *clock) sent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != sending {
		return
	}
	c.phase = awaiting
	if c.limits.FirstByte > 0 {
		c.set(c.limits.FirstByte.Std())
	}
}

// waiting says that the reader waits for the backend.
func (c *clock) waiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == streaming {
		c.since = time.Now()
	}
}

// got says that the reader has bytes of the answer's body, or its end, and does not wait.
func (c *clock) got() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = time.Time{}
	if c.phase == streaming || c.phase == stopped {
		return
	}
	c.phase = streaming
	if c.limits.StreamIdle > 0 {
		c.set(c.limits.StreamIdle.Std())
	} else if c.timer != nil {
		c.timer.Stop()
	}
}

// stop ends the watch: the exchange has ended or became a tunnel.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = stopped
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.total != nil {
		c.total.Stop()
	}
}

// set makes the timer fire after d. The caller holds the lock.
func (c *clock) set(d time.Duration) {
	if c.timer == nil {
		c.timer = time.AfterFunc(d, c.fire)
	} else {
		c.timer.Reset(d)
	}
}

// fire looks whether time is up. While streaming the timer is not reset with each byte: it fires, sees how long the present wait is, and sleeps for the rest.
func (c *clock) fire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.phase {
	case awaiting:
		c.cancel(errFirstByte)
	case streaming:
		idle := c.limits.StreamIdle.Std()
		if c.since.IsZero() {
			c.set(idle)

			return
		}
		if left := idle - time.Since(c.since); left > 0 {
			c.set(left)
		} else {
			c.cancel(errStreamIdle)
		}
	case sending, stopped:
	}
}
