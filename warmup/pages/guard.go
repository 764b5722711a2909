package pages

import "fmt"

const (
	// stretch is how much is brought between two looks at how much memory is left, in bytes.
	stretch = 32 << 20
	// headroom is the part of the memory left that is not taken: one in so many.
	headroom = 8
	// leastHeadroom is left in any case, in bytes.
	leastHeadroom = 16 << 20
	// plenty is more memory than any machine has, in bytes.
	plenty = 1 << 62
)

// guard keeps a Prefetch from taking memory that somebody needs. It belongs to one goroutine.
type guard struct {
	left  func() Room
	limit int64

	// taken counts what was brought so far, checked is how far it may grow before the next look.
	taken, checked int64
}

// stale says whether taking that much more needs a look at the memory.
func (g *guard) stale(more int64) bool { return g.taken+more > g.checked }

// take takes memory for so many more bytes, or says why not. What has been brought is page cache that could be pushed out again, so it is still counted among what is
// left: the rest has to have room beside it.
func (g *guard) take(more int64) error {
	switch {
	case g.limit > 0 && g.taken+more > g.limit:
		return g.stop(fmt.Sprintf("its memory is limited to %s", about(g.limit)))
	case !g.stale(more):
		g.taken += more

		return nil
	}
	room := Room{Bytes: plenty}
	if g.left != nil {
		room = g.left()
	}
	free := room.Bytes - max(leastHeadroom, room.Bytes/headroom) - g.taken
	if free < more {
		return g.stop(fmt.Sprintf("%s leaves %s, of which %s stay free; more would push out what others need", room.Of, about(max(0, room.Bytes-g.taken)), about(max(leastHeadroom, room.Bytes/headroom))))
	}
	g.checked = g.taken + min(free, stretch)
	g.taken += more

	return nil
}

func (g *guard) stop(reason string) error {
	if g.taken == 0 {
		return &stopError{"nothing was read: " + reason}
	}

	return &stopError{fmt.Sprintf("after %s: %s", about(g.taken), reason)}
}
