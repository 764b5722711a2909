package proxy

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// GateSnapshot is the state of a gate at one moment.
type GateSnapshot struct {
	Mode Mode `json:"mode"`
	// Permits is how many requests may be in flight, and Permitted how many of those are; meaningful while ramping, and under a concurrency limit.
	Permits   int `json:"permits"`
	Permitted int `json:"permitted"`
	// Limit is concurrency.limit: "0" when there is none, "auto" when Permits is what it has found.
	Limit units.Auto[int] `json:"limit"`
	// InFlight is the number of exchanges under way with the backend, users' requests only.
	InFlight int64 `json:"in_flight"`
	Held     int   `json:"held"`
	// HeldBytes is the memory reserved for bodies, of HeldBytesLimit.
	HeldBytes      int64 `json:"held_bytes"`
	HeldBytesLimit int64 `json:"held_bytes_limit"`
	// LongestHeld is the age of the oldest hold now, LongestHold the longest one that has ended.
	LongestHeld time.Duration `json:"longest_held_ns"`
	LongestHold time.Duration `json:"longest_hold_ns"`
	// Outcomes counts how the waits ended. Requests that came while the gate was passing did not wait and are not counted.
	Outcomes map[Outcome]uint64 `json:"outcomes"`
	// Draining is true once held requests are refused because of a drain.
	Draining bool `json:"draining"`
}

// Snapshot returns the state of the gate.
func (g *Gate) Snapshot() GateSnapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	s := GateSnapshot{
		Mode: g.Mode(), Permits: g.ramp.permits, Permitted: g.ramp.given, Limit: g.settings.Concurrency.Limit, InFlight: g.inFlight.Load(),
		Held: g.queue.len(), HeldBytes: g.budget.used.Load(), HeldBytesLimit: g.budget.limit.Load(),
		LongestHeld: g.queue.longest(now), LongestHold: g.longest,
		Outcomes: make(map[Outcome]uint64, len(g.totals)), Draining: g.refuseHeld,
	}
	for outcome, n := range g.totals {
		s.Outcomes[Outcome(outcome)] = n
	}

	return s
}
