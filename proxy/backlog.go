package proxy

// backlog counts the requests that were held, have been let through, and are not answered yet: together with those in line they are what the gate
// owes. It is guarded by the gate's lock.
type backlog struct {
	out int
	// announce is set from an opening with requests held until everything that was owed has been answered.
	announce bool
}

// let counts a request that was held and is let through.
func (b *backlog) let(t *Ticket) {
	if !t.owed {
		t.owed = true
		b.out++
	}
}

// answered takes note that an answer to t has begun, or that t goes back to the line or away. It is harmless for a ticket that was not let through.
func (b *backlog) answered(t *Ticket) {
	if t.owed {
		t.owed = false
		b.out--
	}
}

// Backlog returns how many requests are held, or were held and are not answered yet.
func (g *Gate) Backlog() int {
	g.mu.Lock()
	defer g.mu.Unlock()

	return g.owed()
}

// owed is Backlog for those who hold the lock.
func (g *Gate) owed() int { return g.queue.len() + g.backlog.out }

// unlock gives up the lock, and says so once everything that was owed at an opening has been answered.
func (g *Gate) unlock() {
	released := g.backlog.announce && g.owed() == 0
	if released {
		g.backlog.announce = false
	}
	g.mu.Unlock()
	if released && g.settings.Released != nil {
		g.settings.Released()
	}
}
