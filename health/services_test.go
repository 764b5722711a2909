package health

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

const (
	noService  = grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
	serves     = grpc_health_v1.HealthCheckResponse_SERVING
	servesNone = grpc_health_v1.HealthCheckResponse_NOT_SERVING
)

// watching is a Watch of grpc-go's own client.
type watching struct {
	stream grpc.ServerStreamingClient[grpc_health_v1.HealthCheckResponse]
}

func beginWatch(t *testing.T, client grpc_health_v1.HealthClient, service string) watching {
	t.Helper()
	stream, err := client.Watch(patiently(t), &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}

	return watching{stream}
}

// expect reads the next answers, which must be these and in this order.
func (w watching) expect(t *testing.T, answers ...grpc_health_v1.HealthCheckResponse_ServingStatus) {
	t.Helper()
	for _, expected := range answers {
		if got, err := w.stream.Recv(); err != nil || got.GetStatus() != expected {
			t.Fatalf("got %v, %v, expected %v", got, err, expected)
		}
	}
}

func (w watching) expectEnd(t *testing.T, code codes.Code) {
	t.Helper()
	if got, err := w.stream.Recv(); status.Code(err) != code {
		t.Fatalf("got %v, %v, expected the end with %v", got, err, code)
	}
}

// Whoever asks over HTTP and whoever asks over gRPC must be told the same, in every state and under every policy.
func TestServicesSayWhatReadyzSays(t *testing.T) {
	policies := map[string]ReadinessConfig{
		"default":   {},
		"listening": {ReadyWhen: WhenListening},
		"keep":      {OnRestart: Keep, OnUnhealthy: Keep},
	}
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		t.Run(name, func(t *testing.T) {
			machine := NewMachine(Settings{Readiness: policies[name], Models: required("a")})
			p := openPort(t, machine)
			client := p.dial(t)
			seen := map[string]bool{}
			look := func(at string) {
				t.Helper()
				list, err := client.List(patiently(t), &grpc_health_v1.HealthListRequest{})
				if err != nil {
					t.Fatal(err)
				}
				for service, query := range map[string]string{"": "", "a": "?model=a", "b/1 é": "?model=b/1%20%C3%A9"} {
					expected, code := serves, codes.OK
					switch p.readyz(t, query) {
					case 503:
						expected = servesNone
					case 404:
						expected, code = noService, codes.NotFound
					}
					got, err := client.Check(patiently(t), &grpc_health_v1.HealthCheckRequest{Service: service})
					if status.Code(err) != code || got.GetStatus() != expected && err == nil {
						t.Errorf("%s: check %q: %v, %v, expected %v", at, service, got, err, expected)
					}
					if listed := list.GetStatuses()[service]; (listed == nil) != (code == codes.NotFound) || listed != nil && listed.GetStatus() != expected {
						t.Errorf("%s: %q is listed as %v, expected %v", at, service, listed, expected)
					}
					seen[service+expected.String()] = true
				}
			}
			look("at the start")
			machine.SetModels([]ModelConfig{{Name: "a", Required: true}, {Name: "b/1 é"}, {Name: "not \xff UTF-8"}})
			for _, to := range []State{Warming, Ready, Degraded, Idle, Cold, Warming, Ready, Unhealthy, Ready} {
				machine.MoveAll(to, "test")
				look("all " + to.String())
			}
			must(t, machine, "b/1 é", Unhealthy)
			look("one model unhealthy")
			must(t, machine, "", Unhealthy)
			look("the backend unhealthy")
			must(t, machine, "", Ready)
			machine.MoveAll(Draining, "test")
			look("draining")
			if p.readyz(t, "") == 200 {
				t.Error("a draining pod is ready")
			}
			if !seen["SERVING"] || !seen["NOT_SERVING"] || !seen["aSERVING"] || !seen["b/1 éSERVICE_UNKNOWN"] {
				t.Errorf("only %v were seen: the test proves nothing", seen)
			}
		})
	}
}

func TestServicesFollowTheReleaseOfHeldRequests(t *testing.T) {
	machine := NewMachine(Settings{Models: required("a"), Backlog: func() int { return 1 }})
	client := openPort(t, machine).dial(t)
	pod, model := beginWatch(t, client, ""), beginWatch(t, client, "a")
	pod.expect(t, servesNone)
	model.expect(t, servesNone)
	machine.MoveAll(Warming, "test")
	machine.MoveAll(Ready, "test")
	got, err := client.Check(patiently(t), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || got.GetStatus() != servesNone {
		t.Errorf("while held requests are answered: %v, %v", got, err)
	}
	machine.Released()
	pod.expect(t, serves)
	model.expect(t, serves)
}

func TestWatchSaysChangesAndNothingElse(t *testing.T) {
	machine := NewMachine(Settings{Models: required("a", "b")})
	client := openPort(t, machine).dial(t)
	pod, a, later := beginWatch(t, client, ""), beginWatch(t, client, "a"), beginWatch(t, client, "later")
	pod.expect(t, servesNone)
	a.expect(t, servesNone)
	later.expect(t, noService)
	warm(t, machine)
	pod.expect(t, serves)
	a.expect(t, serves)
	for i := range 10 {
		machine.Raise("a", CodeNotConverged, fmt.Sprint("text ", i))
		must(t, machine, "a", Degraded)
		must(t, machine, "a", Ready)
	}
	machine.SetModels(required("a", "b", "later")) // it enters in the backend's state
	later.expect(t, serves)
	must(t, machine, "a", Unhealthy) // the pod still serves
	a.expect(t, servesNone)
	machine.SetModels(required("a", "b"))
	later.expect(t, noService)
	machine.SetModels(required("a", "b", "later"))
	later.expect(t, serves)
	machine.MoveAll(Draining, "test")
	for _, watch := range []watching{pod, later} {
		watch.expect(t, servesNone)
	}
	machine.MoveAll(Stopped, "test")
	for _, watch := range []watching{pod, a, later} {
		watch.expectEnd(t, codes.Unavailable)
	}
}

// The last answer before the end must be the last truth, whatever was missed in between.
func TestEveryWatchSeesTheFinalState(t *testing.T) {
	machine := NewMachine(Settings{Models: required("a")})
	p := openPort(t, machine)
	const rounds, watchers = 20, 40
	var watches sync.WaitGroup
	targets := []chan grpc_health_v1.HealthCheckResponse_ServingStatus{}
	reached := make(chan struct{})
	client := p.dial(t)
	for i := range watchers {
		stream, err := client.Watch(patiently(t), &grpc_health_v1.HealthCheckRequest{Service: []string{"", "a"}[i%2]})
		if err != nil {
			t.Fatal(err)
		}
		target := make(chan grpc_health_v1.HealthCheckResponse_ServingStatus, 1)
		targets = append(targets, target)
		watches.Go(func() {
			last := noService
			step := func() bool {
				got, err := stream.Recv()
				switch {
				case err != nil:
					return false
				case got.GetStatus() == last:
					t.Errorf("%v was said twice", last)
				}
				last = got.GetStatus()

				return true
			}
			for final := range target {
				for last != final {
					if !step() {
						t.Errorf("ended at %v, expected %v", last, final)

						return
					}
				}
				reached <- struct{}{}
			}
			for step() {
			}
			if last != servesNone {
				t.Errorf("the last answer of a drained pod is %v", last)
			}
		})
	}
	everybody := func(final grpc_health_v1.HealthCheckResponse_ServingStatus) {
		for _, target := range targets {
			target <- final
		}
		for range targets {
			select {
			case <-reached:
			case <-t.Context().Done():
			}
		}
	}
	for round := range rounds {
		storm(machine, 200)
		if round%2 == 0 {
			machine.MoveAll(Ready, "test")
			everybody(serves)
		} else {
			machine.MoveAll(Cold, "test")
			everybody(servesNone)
		}
	}
	for _, target := range targets {
		close(target)
	}
	storm(machine, 200)
	machine.MoveAll(Draining, "test")
	machine.MoveAll(Stopped, "test")
	watches.Wait()
}

// storm moves the machine about, and leaves it where every state but starting can be reached.
func storm(machine *Machine, moves int) {
	for range moves {
		machine.MoveAll([]State{Warming, Ready, Degraded, Unhealthy, Cold}[rand.IntN(5)], "storm")
	}
	machine.MoveAll(Cold, "storm")
	machine.MoveAll(Warming, "storm")
}

func TestAListThatIsTooLongIsRefused(t *testing.T) {
	names := []string{}
	for i := range maxListed {
		names = append(names, fmt.Sprint("m", i))
	}
	machine := NewMachine(Settings{Models: required(names[1:]...)})
	client := openPort(t, machine).dial(t)
	if list, err := client.List(patiently(t), &grpc_health_v1.HealthListRequest{}); err != nil || len(list.GetStatuses()) != maxListed {
		t.Errorf("%d services: %v", len(list.GetStatuses()), err)
	}
	machine.SetModels(required(names...))
	if _, err := client.List(patiently(t), &grpc_health_v1.HealthListRequest{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one service more: %v", err)
	}
	if got, err := client.Check(patiently(t), &grpc_health_v1.HealthCheckRequest{Service: names[0]}); err != nil || got.GetStatus() != servesNone {
		t.Errorf("check one of them: %v, %v", got, err)
	}
}
