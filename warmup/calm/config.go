package calm

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Config says how much pressure is too much. A bound of 0 switches that measure off.
type Config struct {
	// CPU is the share of the processors in use, of the node's or of those that our cgroup may use, at which work that can wait does.
	CPU float64 `yaml:"cpu"`
	// Memory is the share of the memory in use, of the node's or of what our cgroup may use, at which work that can wait does.
	Memory float64 `yaml:"memory"`
	// PSI is the share of the last 10s, in percent, in which some task waited for a processor or for memory, at which work that can wait does.
	PSI float64 `yaml:"psi"`
	// SuspendCPU is the share of the processors in use at which work that has begun pauses.
	SuspendCPU float64 `yaml:"suspend_cpu"`
	// Latest is the time from which on work is put off no longer, whatever the pressure is, counted from when it was to begin. 0: it is not put off.
	Latest units.Duration `yaml:"latest"`
}

// DefaultConfig returns the bounds used when the user sets none.
func DefaultConfig() Config {
	return Config{CPU: 0.7, Memory: 0.9, PSI: 20, SuspendCPU: 0.95, Latest: units.Duration(10 * time.Minute)}
}
