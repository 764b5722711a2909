package telemetry

import (
	"log/slog"
	"sync/atomic"
)

// collector is what is known of the other end of a way out. A collector that is down is a number and two lines of the log, whatever the time it is down.
type collector struct {
	what   string // it should get
	logger *slog.Logger

	failures atomic.Uint64
	down     atomic.Bool
}

// heard takes how an attempt to deliver ended.
func (c *collector) heard(err error) {
	if err == nil {
		if c.down.CompareAndSwap(true, false) {
			c.logger.Info("the collector takes telemetry again", "signal", c.what)
		}

		return
	}
	c.failures.Add(1)
	if c.down.CompareAndSwap(false, true) {
		c.logger.Warn("the collector does not take telemetry, which is dropped and counted until it does", "signal", c.what, "error", err)
	}
}
