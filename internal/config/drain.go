package config

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy"
)

// DrainConfig is the drain block of the configuration: how Pilotlight leaves.
type DrainConfig struct {
	// Settle is how long new requests are still served after the drain has begun, while endpoint lists elsewhere catch up.
	Settle units.Duration `yaml:"settle"`
	// Limit is the longest that a drain takes from its begin, Settle included. "auto" is 7s less than the pod's grace period where PILOTLIGHT_GRACE_PERIOD names it, else 23s.
	Limit units.Auto[units.Duration] `yaml:"limit"`
	// Held is what happens to held requests: "finish" lets them go once the backend is warm, "refuse" refuses them, retryably, at the begin.
	Held proxy.HeldPolicy `yaml:"held"`
	// Quit lets whoever bears the admin token end Pilotlight with POST /quit at the admin port, after a drain and with exit code 0. It is for jobs, whose pod is over
	// only when every container has ended.
	Quit bool `yaml:"quit"`
}

// DefaultDrain returns the settings used when the user sets none.
func DefaultDrain() DrainConfig { return DrainConfig{Settle: units.Duration(5 * time.Second)} }

const (
	// drainMargin is what a drain leaves of the grace period, for telemetry and for the end of the process.
	drainMargin = units.Duration(7 * time.Second)
	// drainUnknown is the limit of a drain in a pod whose grace period we do not know: the default of 30s without the margin.
	drainUnknown = units.Duration(23 * time.Second)
)

// drainLimit is what "auto" means in a pod with that grace period; 0 means that it is unknown.
func drainLimit(grace units.Duration) units.Duration {
	switch {
	case grace == 0:
		return drainUnknown
	case grace > drainMargin:
		return grace - drainMargin
	default:
		return grace / 2
	}
}
