package config

import (
	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Resolver holds what "auto" means on this machine, found out by those who know. A zero field leaves its "auto" in place, as do the keys whose
// "auto" is decided again and again while running: backend.type and listen.deny until the backend has been seen, health.timeout and health.active_check.
type Resolver struct {
	// Memory returns the budget, in bytes, that hold.memory means.
	Memory func(units.Auto[units.Size]) int64
	// Workers is the number of the backend's processes, once the server type is known.
	Workers int
	// Threads is the number of threads for one inference of the embedded backend.
	Threads int
	// TokenFile is the file that holds the admin token.
	TokenFile string
	// RecordFile is the file that says what is warm.
	RecordFile string
	// LogFormat is text on a terminal, JSON otherwise.
	LogFormat telemetry.LogFormat
	// Grace is the pod's grace period; 0 when unknown, see [Grace].
	Grace units.Duration
}

// Resolve returns a copy of c in which "auto" is replaced by what it means here. c is unchanged; lists and maps are shared with it.
func (r Resolver) Resolve(c *Config) *Config {
	resolved := *c
	if r.Memory != nil {
		resolved.Hold.Memory = units.Of(units.Size(r.Memory(c.Hold.Memory)))
	}
	if r.Workers > 0 {
		resolved.Backend.Workers = units.Of(c.Backend.Workers.Or(r.Workers))
	}
	if r.Threads > 0 {
		resolved.Backend.ONNX.Threads = units.Of(c.Backend.ONNX.Threads.Or(r.Threads))
	}
	if r.TokenFile != "" {
		resolved.Listen.AdminTokenFile = units.Of(c.Listen.AdminTokenFile.Or(r.TokenFile))
	}
	if r.RecordFile != "" {
		resolved.Warmup.Record = units.Of(c.Warmup.Record.Or(r.RecordFile))
	}
	if c.Telemetry.Log.Format == telemetry.FormatAuto {
		resolved.Telemetry.Log.Format = r.LogFormat
	}
	resolved.Drain.Limit = units.Of(c.Drain.Limit.Or(drainLimit(r.Grace)))

	return &resolved
}
