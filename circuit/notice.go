package circuit

import (
	"context"
	"log/slog"
)

// maxNotices bounds what is kept for a Run that is not there or whose caller is slow.
const maxNotices = 16

// notice is one call of Moved or UsersFailing to come.
type notice struct {
	failing  bool // UsersFailing, else Moved
	on       bool
	from, to State
	text     string
}

// tell queues a notice for Run. The lock is held.
func (b *Breaker) tell(n notice) {
	if len(b.notices) >= maxNotices {
		b.notices = folded(b.notices)
	}
	b.notices = append(b.notices, n)
	b.wake()
}

// folded is at most one move, from the first state to the last, and the last word on the users.
func folded(all []notice) []notice {
	var kept []notice
	var move, failing *notice
	for _, n := range all {
		switch {
		case n.failing:
			failing = &n
		case move == nil:
			move = &n
		default:
			move = &notice{from: move.from, to: n.to, text: n.text}
		}
	}
	if failing != nil {
		kept = append(kept, *failing)
	}
	if move != nil && move.from != move.to {
		kept = append(kept, *move)
	}

	return kept
}

// dropMoves forgets the moves that nobody has heard of. The lock is held.
func (b *Breaker) dropMoves() {
	kept := b.notices[:0]
	for _, n := range b.notices {
		if n.failing {
			kept = append(kept, n)
		}
	}
	b.notices = kept
}

// deliver calls Moved and UsersFailing, one at a time and outside the lock.
func (b *Breaker) deliver(ctx context.Context) {
	for ctx.Err() == nil {
		b.mu.Lock()
		if len(b.notices) == 0 {
			b.mu.Unlock()

			return
		}
		n := b.notices[0]
		b.notices = b.notices[1:]
		b.mu.Unlock()
		if n.failing {
			b.usersFailing(n.on, n.text)

			continue
		}
		level := slog.LevelInfo
		if n.to == Open {
			level = slog.LevelWarn
		}
		b.logger.LogAttrs(ctx, level, "circuit breaker moved",
			slog.String("from", n.from.String()), slog.String("to", n.to.String()), slog.String("reason", n.text))
		b.moved(n.from, n.to, n.text)
	}
}
