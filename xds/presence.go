package xds

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pilotlight-proxy/pilotlight/health"
)

// Promises are what becomes of requests that arrive while the backend cannot take them. Whoever would only be refused is better told not to send.
type Promises struct {
	// HoldsWhileWarming says that requests are held, and may be sent, before the backend is warm.
	HoldsWhileWarming bool
	// HoldsWhileUnhealthy says that they are while the backend is unhealthy.
	HoldsWhileUnhealthy bool
}

// presence is how our endpoint is shown in a state, and whether it is shown at all.
func (p Promises) presence(state health.State) (status corev3.HealthStatus, shown bool) {
	switch state {
	case health.Starting, health.Warming, health.Cold:
		return corev3.HealthStatus_HEALTHY, p.HoldsWhileWarming
	case health.Idle, health.Ready, health.Degraded: // an idle backend warms for the first request, so that one must come
		return corev3.HealthStatus_HEALTHY, true
	case health.Unhealthy:
		if p.HoldsWhileUnhealthy {
			return corev3.HealthStatus_HEALTHY, true
		}

		return corev3.HealthStatus_UNHEALTHY, true
	case health.Draining:
		return corev3.HealthStatus_DRAINING, true
	case health.Stopped:
	}

	return corev3.HealthStatus_UNKNOWN, false
}
