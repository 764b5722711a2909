package health

// severest lists the states in which a required model keeps the pod from serving, the one that shows first.
var severest = []State{Starting, Cold, Warming, Idle}

// aggregate computes the pod's state:
//
//   - draining and stopped of the backend scope come first;
//   - then unhealthy, if the backend scope is, or if every required model is;
//   - then the first of starting, cold, warming and idle that a required model is in;
//   - then degraded, if a required model is unhealthy or degraded, or the backend scope is degraded;
//   - and ready.
//
// Models that are not required never count. With no model that counts the backend scope alone decides.
// Once a model counts, the backend scope's own starting, cold, warming and idle say nothing: who loses the backend moves all scopes with [Machine.MoveAll].
func aggregate(backend State, required []State) State {
	if backend.leaving() || backend == Unhealthy {
		return backend
	}
	seen := make(map[State]int, len(required))
	for _, state := range required {
		seen[state]++
	}
	switch {
	case len(seen) == 0:
		return backend
	case len(seen) == 1 && seen[Unhealthy] > 0:
		return Unhealthy
	}
	for _, state := range severest {
		if seen[state] > 0 {
			return state
		}
	}
	if seen[Unhealthy] > 0 || seen[Degraded] > 0 || backend == Degraded {
		return Degraded
	}

	return Ready
}
