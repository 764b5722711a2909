package health

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Config is the health block of the configuration.
type Config struct {
	// Interval is the time between two checks of a backend that says nothing by itself.
	Interval units.Duration `yaml:"interval"`
	// Timeout limits one check. "auto" is 2s for an endpoint and max(5s, 10 times the warm level) for a synthetic request; a value set here limits both.
	Timeout units.Auto[units.Duration] `yaml:"timeout"`
	// UnhealthyAfter is how many checks must fail in a row, with no user's work proving otherwise.
	UnhealthyAfter int `yaml:"unhealthy_after"`
	// ActiveCheck is what a check consists of.
	ActiveCheck ActiveCheck `yaml:"active_check"`
	// RestartBackend is what /livez/backend may ask for, which is for the liveness probe of the backend's container: "never" nothing, "on-fatal" a restart after an
	// error that the backend does not recover from, "on-stall" one then and when it is stalled.
	RestartBackend RestartBackend `yaml:"restart_backend"`
	// RestartGrace is how long after the backend's own start no restart is asked for.
	RestartGrace units.Duration `yaml:"restart_grace"`
}

// ModelConfig is one entry of the models list: what the pod must be warm for.
type ModelConfig struct {
	// Name is the model's name as the backend knows it.
	Name string `yaml:"name"`
	// Required models gate the pod's readiness; the others never do.
	Required bool `yaml:"required"`
}

// ReadinessConfig says what /readyz answers in states where withheld readiness and held requests exclude each other.
type ReadinessConfig struct {
	// ReadyWhen is "warm" where other pods can take the traffic, "listening" where this pod is alone and requests are held here.
	ReadyWhen ReadyWhen `yaml:"ready_when"`
	// ReadyAfter is "required" to be ready once the required shapes are warm and to warm the others in the background, "all" to be ready once every shape is warm.
	ReadyAfter ReadyAfter `yaml:"ready_after"`
	// OnRestart says whether readiness is withdrawn while the backend is cold again.
	OnRestart Reaction `yaml:"on_restart"`
	// OnUnhealthy says whether readiness is withdrawn while the backend is unhealthy.
	OnUnhealthy Reaction `yaml:"on_unhealthy"`
}

// DefaultConfig returns the settings used when the user sets none.
func DefaultConfig() Config {
	return Config{Interval: units.Duration(5 * time.Second), UnhealthyAfter: 3, ActiveCheck: CheckAuto, RestartGrace: units.Duration(10 * time.Minute)}
}

// DefaultReadiness returns the policy used when the user sets none: every field's zero value.
func DefaultReadiness() ReadinessConfig { return ReadinessConfig{} }
