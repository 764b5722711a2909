package health

import "testing"

func TestAggregate(t *testing.T) {
	for _, test := range []struct {
		name     string
		backend  State
		required []State
		expected State
	}{
		{"no model: the backend's state", Cold, nil, Cold},
		{"no model: the backend's state when it serves", Degraded, nil, Degraded},
		{"draining first", Draining, []State{Ready, Starting}, Draining},
		{"stopped first", Stopped, []State{Ready}, Stopped},
		{"unhealthy backend over everything else", Unhealthy, []State{Ready, Starting}, Unhealthy},
		{"all required unhealthy", Ready, []State{Unhealthy, Unhealthy}, Unhealthy},
		{"one bad model never takes the pod out", Ready, []State{Unhealthy, Ready}, Degraded},
		{"the bad one is no worse than degraded", Ready, []State{Unhealthy, Warming}, Warming},
		{"starting before cold", Ready, []State{Cold, Starting, Ready}, Starting},
		{"cold before warming", Ready, []State{Warming, Cold}, Cold},
		{"warming before idle", Ready, []State{Idle, Warming}, Warming},
		{"idle before ready", Ready, []State{Ready, Idle}, Idle},
		{"degraded model", Ready, []State{Ready, Degraded}, Degraded},
		{"degraded backend shows", Degraded, []State{Ready, Ready}, Degraded},
		{"ready", Ready, []State{Ready, Ready}, Ready},
		{"the backend's own warmth says nothing once a model counts", Warming, []State{Ready}, Ready},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := aggregate(test.backend, test.required); got != test.expected {
				t.Errorf("backend %s, models %v: the pod is %s, expected %s", test.backend, test.required, got, test.expected)
			}
		})
	}
}
