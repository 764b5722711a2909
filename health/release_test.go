package health_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/health"
)

// serve makes a machine with a backlog serve.
func serve(t *testing.T, backlog int, readiness health.ReadinessConfig) *health.Machine {
	t.Helper()
	machine := health.NewMachine(health.Settings{Readiness: readiness, Backlog: func() int { return backlog }})
	for _, state := range []health.State{health.Warming, health.Ready} {
		if err := machine.Move("", state, "test"); err != nil {
			t.Fatal(err)
		}
	}

	return machine
}

func TestReadinessWaitsForTheHeldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := serve(t, 3, health.ReadinessConfig{})
		if machine.Ready() || machine.Pod() != health.Ready {
			t.Errorf("with a backlog: state %s, /readyz %t, want ready and false", machine.Pod(), machine.Ready())
		}
		if got := machine.Snapshot().Codes(); len(got) != 1 || got[0] != health.CodeReleasing {
			t.Errorf("conditions: got %v, want releasing", got)
		}
		machine.Released()
		if !machine.Ready() || len(machine.Snapshot().Codes()) != 0 {
			t.Errorf("after the release: /readyz %t, conditions %v", machine.Ready(), machine.Snapshot().Codes())
		}
	})
}

func TestReadinessDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := serve(t, 3, health.ReadinessConfig{})
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if machine.Ready() {
			t.Error("ready before the limit")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !machine.Ready() {
			t.Error("not ready after the limit: a saturated pod is not a sick one")
		}
	})
}

func TestReadinessDoesNotWaitWithoutABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if machine := serve(t, 0, health.ReadinessConfig{}); !machine.Ready() {
			t.Error("not ready although nobody was held")
		}
	})
}

func TestReadinessGivenByPolicyIsNotTakenBackForTheHeldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if machine := serve(t, 3, health.ReadinessConfig{ReadyWhen: health.WhenListening}); !machine.Ready() {
			t.Error("ready_when listening: not ready")
		}
		backlog := 0
		machine := health.NewMachine(health.Settings{Readiness: health.ReadinessConfig{OnRestart: health.Keep}, Backlog: func() int { return backlog }})
		for _, state := range []health.State{health.Warming, health.Ready, health.Cold, health.Warming} {
			if err := machine.Move("", state, "test"); err != nil {
				t.Fatal(err)
			}
		}
		backlog = 3
		if err := machine.Move("", health.Ready, "test"); err != nil || !machine.Ready() {
			t.Errorf("on_restart keep: /readyz %t, %v", machine.Ready(), err)
		}
	})
}

func TestReleaseEndsWhenThePodStopsServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := serve(t, 3, health.ReadinessConfig{})
		machine.MoveAll(health.Cold, "test")
		if got := machine.Snapshot().Codes(); len(got) != 0 {
			t.Errorf("conditions left: %v", got)
		}
		time.Sleep(time.Minute) // its timer must not fire into another state
		synctest.Wait()
		if machine.Ready() {
			t.Error("a cold pod is ready")
		}
	})
}
