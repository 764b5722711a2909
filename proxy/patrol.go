package proxy

import (
	"context"
	"sync"
	"time"
)

// blink is how long an attempt may last without a timer, and without anything that its client's leaving sets off. Most are over by then, and for them both would
// cost more than all else that is done here.
const blink = 20 * time.Millisecond

// patrol sees which attempts outlast a blink. All its methods may be called concurrently.
type patrol struct {
	blink time.Duration // 0 watches everything from its begin

	mu    sync.Mutex
	young *attempt // the first of a list through their links
	timer *time.Timer
	armed bool
}

// join takes a into the list.
func (p *patrol) join(a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blink == 0 {
		a.watch()

		return
	}
	a.young = true
	if a.next = p.young; a.next != nil {
		a.next.prev = a
	}
	p.young = a
	if p.armed {
		return
	}
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(p.blink, p.look)
	} else {
		p.timer.Reset(p.blink)
	}
}

// leave ends what join began.
func (p *patrol) leave(a *attempt) {
	p.mu.Lock()
	if a.young {
		p.remove(a)
	}
	stop := a.stop
	p.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// look watches those that are still in the list for as long as they last.
func (p *patrol) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	for a := p.young; a != nil; a = p.young {
		p.remove(a)
		a.watch()
	}
}

// watch ends a when its client leaves or its time is up. The caller holds the patrol's lock.
func (a *attempt) watch() {
	if a.ours {
		a.stop = context.AfterFunc(a.x.r.Context(), a.abort)
	}
	a.clock.wake()
}

// remove takes a out of the list. The caller holds the lock.
func (p *patrol) remove(a *attempt) {
	if a.prev == nil {
		p.young = a.next
	} else {
		a.prev.next = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	}
	a.next, a.prev, a.young = nil, nil, false
}
