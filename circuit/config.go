package circuit

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Config is the circuit block of the configuration.
type Config struct {
	// Window is the rolling time over which the failure rate is computed.
	Window units.Duration `yaml:"window"`
	// MinRequests is how many judged exchanges the window must hold before a rate means anything.
	MinRequests int `yaml:"min_requests"`
	// FailureRate is the share of bad verdicts, above 0 and at most 1, from which the backend is suspected.
	FailureRate float64 `yaml:"failure_rate"`
	// Confirm sends a synthetic request before opening: if it passes, the breaker stays closed.
	Confirm bool `yaml:"confirm"`
	// StalledAfter is how long nothing may finish or progress, while something is in flight, before the backend is suspected of hanging. What is in flight must be
	// that old, too, and 4 times as old as the longest first byte of requests of its kind; a kind of which none has finished yet is no evidence.
	StalledAfter units.Duration `yaml:"stalled_after"`
	// OpenFor is how long an open breaker waits before its first trial; it doubles, with jitter, up to a minute.
	OpenFor units.Duration `yaml:"open_for"`
	// HalfOpen is how an open breaker heals.
	HalfOpen HalfOpenConfig `yaml:"half_open"`
	// WhileOpen is what happens to users' requests while the breaker is open.
	WhileOpen WhileOpen `yaml:"while_open"`
}

// HalfOpenConfig is how an open breaker heals.
type HalfOpenConfig struct {
	// Synthetic spends a synthetic request before the first user's. When false, users are the trials.
	Synthetic bool `yaml:"synthetic"`
	// Requests is the number of user trials that decide, judged by the failure rate.
	Requests int `yaml:"requests"`
	// Timeout is the longest one trial may take.
	Timeout units.Duration `yaml:"timeout"`
}

// DefaultConfig returns the settings used when the user sets none.
func DefaultConfig() Config {
	return Config{
		Window:       units.Duration(30 * time.Second),
		MinRequests:  20,
		FailureRate:  0.5,
		Confirm:      true,
		StalledAfter: units.Duration(10 * time.Second),
		OpenFor:      units.Duration(5 * time.Second),
		HalfOpen:     HalfOpenConfig{Synthetic: true, Requests: 3, Timeout: units.Duration(30 * time.Second)},
		WhileOpen:    Reject,
	}
}
