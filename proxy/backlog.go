package proxy

// backlog counts what the gate owes: the requests that were held while the backend was not ready, and are not answered yet. Those that only a concurrency
// limit keeps waiting are none: there may always be some. It is guarded by the gate's lock.
type backlog struct {
	owed int
	// announce is set from an opening with requests held until everything that was owed has been answered.
	announce bool
}

// arrive counts a request that is held.
func (b *backlog) arrive(t *Ticket) {
	if !t.owed {
		t.owed = true
		b.owed++
	}
}

// leave takes note that t is answered, by whomever, or that nobody waits for an answer. It is harmless for a ticket that is not owed one.
func (b *backlog) leave(t *Ticket) {
	if t.owed {
		t.owed = false
		b.owed--
	}
}

// Backlog returns how many requests are held until the backend is ready, or were and are not answered yet.
func (g *Gate) Backlog() int {
	g.mu.Lock()
	defer g.mu.Unlock()

	return g.backlog.owed
}

// unlock gives up the lock, and says so once everything that was owed at an opening has been answered.
func (g *Gate) unlock() {
	released := g.backlog.announce && g.backlog.owed == 0
	if released {
		g.backlog.announce = false
	}
	g.mu.Unlock()
	if released && g.settings.Released != nil {
		g.settings.Released()
	}
}
