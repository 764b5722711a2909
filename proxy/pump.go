package proxy

import (
	"errors"
	"io"
)

// pump reads the body beside the wait of t until it has ended, the memory for it is full, or the request is let through.
func (b *Body) pump(g *Gate, t *Ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pumping || b.released || b.closed || b.err != nil || b.direct {
		return // a pump of an earlier hold is still at work, the request was let through already, or there is nothing to read ahead
	}
	b.pumping = true
	go b.run(g, t)
}

// run is the pump. It tells the gate once there is nothing left to read ahead.
func (b *Body) run(g *Gate, t *Ticket) {
	b.mu.Lock()
	for !b.released && !b.closed && b.err == nil {
		room := b.room()
		if room == nil {
			break
		}
		b.reading, b.touched = true, true
		b.mu.Unlock()
		n, err := b.src.Read(room)
		b.mu.Lock()
		err = b.bound.saw(room[:n], err)
		b.reading = false
		b.passed(room[:n], err)
		if len(b.buf) < cap(b.buf) {
			b.buf = b.buf[:len(b.buf)+n]
		}
		b.err = err
		b.changed.Broadcast()
	}
	b.pumping = false
	b.changed.Broadcast()
	tell, ended := !b.released && !b.closed, b.err != nil
	outcome := Proceed
	switch {
	case ended && !errors.Is(b.err, io.EOF):
		outcome = Gone
	case tell && !ended && !b.reserveWindow():
		outcome = Full
	}
	b.mu.Unlock()
	if tell && !ended {
		b.watch(func() { g.bodySettled(t, Gone) })
	}
	if tell {
		g.bodySettled(t, outcome)
	}
}

// room returns where the pump may read to, or nil when it must stop and leave the rest to flow control. The caller holds the lock.
func (b *Body) room() []byte {
	if b.length > 0 {
		if b.buf == nil {
			b.buf = make([]byte, 0, b.length)
		}
		if len(b.buf) == cap(b.buf) {
			return b.one[:] // only the end can come now
		}

		return b.buf[len(b.buf):cap(b.buf)]
	}
	if len(b.buf) == cap(b.buf) && !b.grow(b.budget.take) {
		return nil
	}

	return b.buf[len(b.buf):cap(b.buf)]
}

// grow makes the memory of a body of unknown length larger, as long as the budget has some for it.
func (b *Body) grow(take func(int64) bool) bool {
	had := int64(cap(b.buf))
	size := min(max(firstRead, 2*had), b.limit)
	if size <= had || !take(size-had) {
		return false
	}
	b.reserved += size - had
	larger := make([]byte, len(b.buf), size)
	copy(larger, b.buf)
	b.buf = larger

	return true
}

// reserveWindow sets memory aside for what an HTTP/2 client may send before flow control stops it: net/http's server takes that in, whether anybody reads or not. What an
// HTTP/1 client sends stays in the kernel. The caller holds the lock.
func (b *Body) reserveWindow() bool {
	if b.http1 || b.windowed {
		return true
	}
	if !b.budget.take(streamWindow) {
		return false
	}
	b.reserved += streamWindow
	b.windowed = true

	return true
}
