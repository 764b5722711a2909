package health

// answers tells whether /readyz says 200 in a state. given is whether a state that answers 200 by itself was reached before: readiness that was given once may be kept.
//
// Withheld readiness and held requests exclude each other behind a plain Service, so each state in which requests are held, or the backend is sick, is a matter of policy:
// with ready_when "listening" this pod is alone and is ready before the backend is; with a reaction "keep" it stays ready once it was.
func (c ReadinessConfig) answers(state State, given bool) bool {
	listening := c.ReadyWhen == WhenListening
	switch state {
	case Ready, Degraded, Idle:
		return true
	case Starting, Warming:
		return listening || (given && c.OnRestart == Keep)
	case Cold:
		if given {
			return c.OnRestart == Keep
		}

		return listening // lost before it ever was warm: still the start, not a restart
	case Unhealthy:
		return (given || listening) && c.OnUnhealthy == Keep
	case Draining, Stopped:
		return false
	default:
		return false
	}
}

// givesReadiness tells whether a state answers 200 whatever the policy, so that from then on "keep" has something to keep.
func (s State) givesReadiness() bool { return s.Serves() || s == Idle }
