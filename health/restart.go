package health

import (
	"fmt"
	"slices"
	"time"
)

// Restart decides what /livez/backend says: whether the kubelet had better restart the backend's container. Only the operator allows that at all.
type Restart struct {
	Policy RestartBackend
	// Grace is how long a backend is left alone after its own start, however sick it is. That Pilotlight was restarted has no part in it.
	Grace   time.Duration
	Machine *Machine
	Birth   *Birth
}

// Due says whether a restart is asked for, and why or why not: a state or a code, and nothing about the configuration.
//
// A backend that is loading, lost, or only failing its checks is none to restart, and neither is one in a pod that leaves.
func (r *Restart) Due() (due bool, why string) {
	if r == nil || r.Policy == RestartNever {
		return false, "no restart is ever asked for"
	}
	now := r.Machine.Snapshot()
	if now.Backend.State != Unhealthy {
		return false, now.Backend.State.String()
	}
	reasons := r.Policy.codes()
	at := slices.IndexFunc(now.Conditions, func(c Condition) bool { return slices.Contains(reasons, c.Code) })
	if at < 0 {
		return false, fmt.Sprintf("%s, which is no reason to restart", now.Backend.State)
	}
	code := now.Conditions[at].Code
	born, known := r.Birth.At()
	if !known || time.Since(born) < r.Grace {
		return false, fmt.Sprintf("%s, and within its grace", code)
	}

	return true, string(code)
}
