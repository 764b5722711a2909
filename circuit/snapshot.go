package circuit

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Snapshot is what a breaker knows at one moment.
type Snapshot struct {
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// Reason is why the state is what it is, and while open, how the last trial failed.
	Reason string `json:"reason"`
	// Forced is true while the operator has pinned the state.
	Forced bool `json:"forced"`
	// UsersFailing is true while the rate is bad and synthetic requests pass.
	UsersFailing bool `json:"users_failing"`
	// Window counts the verdicts that fell within the rolling window.
	Window Tally `json:"window"`
	// InFlight is the number of exchanges under way, whenever they began.
	InFlight int `json:"in_flight"`
	// OldestInFlight is the age of the oldest of them, 0 when there is none.
	OldestInFlight units.Duration `json:"oldest_in_flight"`
	// Trials counts the users' trials of a half-open breaker; none are those without a verdict yet.
	Trials Tally `json:"trials"`
	// NextTrial is when an open breaker is tried next; the zero time when it is not open, or forced.
	NextTrial time.Time `json:"next_trial,omitzero"`
}

// Snapshot returns what the breaker knows now. It looks at every slot, so it is for people and scrapes, not for requests.
func (b *Breaker) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	c := b.flights.census(0)
	s := Snapshot{
		State:        b.state,
		Since:        b.since,
		Reason:       b.reason,
		Forced:       b.forced,
		UsersFailing: doubt(b.doubt.Load()) == usersFailing,
		Window:       b.window.tally(now),
		InFlight:     c.count,
		Trials:       b.round.tally(),
	}
	if c.count > 0 {
		s.OldestInFlight = units.Duration(now - c.oldest)
	}
	if b.state == Open && !b.forced {
		s.NextTrial = b.epoch.Add(b.backoff.trial)
	}

	return s
}
