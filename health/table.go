package health

import "slices"

// transitions says which states may follow each state of one scope: the backend as a whole, or one model.
// A warm-up that is tried again stays warming. To stay is no transition, and always allowed.
var transitions = map[State][]State{
	Starting:  {Warming, Idle, Cold, Draining},
	Idle:      {Warming, Cold, Unhealthy, Draining},
	Warming:   {Ready, Degraded, Cold, Unhealthy, Draining},
	Ready:     {Degraded, Unhealthy, Cold, Warming, Idle, Draining},
	Degraded:  {Ready, Unhealthy, Cold, Warming, Idle, Draining},
	Unhealthy: {Ready, Degraded, Warming, Cold, Draining},
	Cold:      {Warming, Idle, Draining},
	Draining:  {Stopped},
	Stopped:   {},
}

// jumps says which further moves the pod may make although no single scope may: the pod's state is computed from several scopes, each of which moves legally.
// While the backend scope is unhealthy the models go on by themselves, so the pod falls from wherever its models are and comes back to wherever they are then;
// when one model's warm-up ends, another's idleness is what is left to show; and an idle model that turns out unhealthy no longer keeps the others from serving.
// Besides these, [Machine.SetModels] may take the pod from any state to any other, but never out of draining or stopped.
//
//exhaustive:ignore
var jumps = map[State][]State{
	Starting:  {Unhealthy},
	Cold:      {Unhealthy},
	Unhealthy: {Starting, Idle},
	Warming:   {Idle},
	Idle:      {Degraded},
}

// mayBecome tells whether one scope may go from s to to. States that do not exist may become nothing.
func (s State) mayBecome(to State) bool { return slices.Contains(transitions[s], to) }
