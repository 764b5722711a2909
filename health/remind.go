package health

import (
	"context"
	"time"
)

// Remind logs a line after each interval in which the pod is not ready, so that a log without any news still says what is being waited for. It returns when ctx ends.
func (m *Machine) Remind(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if now := m.Snapshot(); !now.Ready && !now.State.leaving() {
			m.logger.Info("pod is not ready", "state", now.State, "for", time.Since(now.Since).Round(time.Second), "reason", now.Reason, "conditions", now.texts())
		}
	}
}
