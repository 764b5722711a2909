package warmup

// sketch counts how often each of many things comes, of which it remembers the most frequent ones (space-saving, Metwally et al.): a new one takes the place of the
// rarest and inherits its count, as what the new count may be too high by. So no count is too low, none is too high by more than all counts divided by the room,
// and whatever had a larger share than one in the room is there. Counts of one sketch that are added to another leave out what the first had no room for: then a count
// may be too low as well, but what is left of it without Over is still certain.
type sketch[T comparable] struct {
	room     int
	counters map[T]*counter
}

// counter is how often something came at most, and by how much that may be over.
type counter struct {
	Count float64 `json:"count"`
	Over  float64 `json:"over,omitempty"`
}

// faded is a count that has aged so far that it makes room.
const faded = 0.05

func newSketch[T comparable](room int) sketch[T] {
	return sketch[T]{room: room, counters: map[T]*counter{}}
}

// add counts what came more often, as one count or as that of another sketch.
func (s *sketch[T]) add(what T, more counter) {
	if known := s.counters[what]; known != nil {
		known.Count += more.Count
		known.Over += more.Over

		return
	}
	if len(s.counters) < s.room {
		made := more // the argument itself would be allocated each time
		s.counters[what] = &made

		return
	}
	rarest, least := s.rarest()
	delete(s.counters, rarest)
	least.Over = least.Count + more.Over // its place is used again: no allocation for a stranger
	least.Count += more.Count
	s.counters[what] = least
}

// rarest looks through all: there are few, and who comes often is not looked for.
func (s *sketch[T]) rarest() (rarest T, least *counter) {
	for what, c := range s.counters {
		if least == nil || c.Count < least.Count {
			rarest, least = what, c
		}
	}

	return rarest, least
}

// age multiplies all counts by what is left of them.
func (s *sketch[T]) age(left float64) {
	for what, c := range s.counters {
		c.Count *= left
		c.Over *= left
		if c.Count < faded {
			delete(s.counters, what)
		}
	}
}
