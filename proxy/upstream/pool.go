package upstream

import (
	"sync"
	"time"
)

// pool keeps the connections that nobody uses. The one that was used last is used next, so that those which are not needed grow old.
type pool struct {
	max     int
	timeout time.Duration

	mu    sync.Mutex
	idle  []*conn // oldest first
	timer *time.Timer
	due   time.Time // when timer fires; zero when it is not set
}

// take returns a connection that is still good, or nil. Those found to be old or stale are closed.
func (p *pool) take() *conn {
	for {
		c := p.pop()
		switch {
		case c == nil:
			return nil
		case !c.expired(time.Now()) && !c.stale():
			return c
		}
		_ = c.Close()
	}
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]

	return c
}

// put takes c back. limit is for how long the backend keeps an unused connection; 0 when it does not say.
func (p *pool) put(c *conn, limit time.Duration) {
	c.expires = time.Time{}
	if p.timeout > 0 && (limit == 0 || p.timeout < limit) {
		limit = p.timeout
	}
	if limit > 0 {
		c.expires = time.Now().Add(limit)
	}
	if !p.push(c) {
		_ = c.Close()
	}
}

func (p *pool) push(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= p.max {
		return false
	}
	p.idle = append(p.idle, c)
	p.arm(c.expires)

	return true
}

// arm makes the pool look for old connections at that time, or before. The caller holds the lock.
func (p *pool) arm(at time.Time) {
	if at.IsZero() || (!p.due.IsZero() && !at.Before(p.due)) {
		return
	}
	p.due = at
	if p.timer == nil {
		p.timer = time.AfterFunc(time.Until(at), p.reap)
	} else {
		p.timer.Reset(time.Until(at))
	}
}

// reap closes the connections that are too old, of which the backend would close most by itself soon.
func (p *pool) reap() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Time{}
	now := time.Now()
	kept := p.idle[:0]
	for _, c := range p.idle {
		if c.expired(now) {
			_ = c.Close()

			continue
		}
		kept = append(kept, c)
		p.arm(c.expires)
	}
	clear(p.idle[len(kept):])
	p.idle = kept
}

func (p *pool) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		_ = c.Close()
	}
	clear(p.idle)
	p.idle = p.idle[:0]
	if p.timer != nil {
		p.timer.Stop()
	}
	p.due = time.Time{}
}

func (p *pool) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()

	return len(p.idle)
}
