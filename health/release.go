package health

import "time"

// releaseLimit bounds how long readiness waits for the requests that were held. A backend that cannot work them off in this time is saturated, and saturation is no reason not to be ready.
const releaseLimit = 10 * time.Second

// release is the time in which the pod already serves but still owes answers to the requests that it held: a request that arrives now stands behind all of them.
// To say "ready" then would send users into the very wait that readiness is to keep them from. Readiness that a policy has given all along is not taken back for it.
// The machine's lock guards it.
type release struct {
	timer *time.Timer // nil when there is none
}

// holds says that readiness waits.
func (r *release) holds() bool { return r.timer != nil }

// begin begins a release if there is a backlog, and the pod is not ready already.
func (r *release) begin(m *Machine) {
	if r.holds() || m.published.Load().Ready || m.readiness.ReadyWhen == WhenListening || m.backlog() == 0 {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(releaseLimit, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.release.timer == timer {
			m.logger.Warn("the held requests are not all answered; the pod is ready all the same", "after", releaseLimit, "left", m.backlog())
			m.release.end()
			m.publish()
		}
	})
	r.timer = timer
}

// end ends a release, if there is one.
func (r *release) end() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// Released says that every request that was held when the pod began to serve has been answered, or has left.
func (m *Machine) Released() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.release.holds() {
		m.release.end()
		m.publish()
		m.logger.Info("the held requests are answered", "ready", m.Ready())
	}
}
