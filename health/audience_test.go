package health

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// crowd begins a thousand watches over a few connections, and returns a function that waits until each was told something more.
func crowd(t *testing.T, p *port) (everybody func()) {
	t.Helper()
	const size, perConnection = 1000, 200
	told := make(chan error, size)
	for range size / perConnection {
		client := p.dial(t)
		for range perConnection {
			stream, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				for {
					_, err := stream.Recv()
					told <- err
					if err != nil {
						return
					}
				}
			}()
		}
	}
	everybody = func() {
		t.Helper()
		patience := time.After(time.Minute)
		for i := range size {
			select {
			case err := <-told:
				if err != nil {
					t.Fatal(err)
				}
			case <-patience:
				t.Fatalf("%d of %d watches were told", i, size)
			}
		}
	}
	everybody()

	return everybody
}

func TestAThousandWatchesDoNotSlowAMove(t *testing.T) {
	quiet, watched, followed := NewMachine(Settings{}), NewMachine(Settings{}), NewMachine(Settings{})
	p := openPort(t, watched)
	everybody := crowd(t, p)
	if n := followers(watched); n != 1 {
		t.Errorf("%d follow the machine, expected one for a thousand watches", n)
	}
	for range 1000 { // the control: what it would cost if each watch followed the machine by itself
		followed.Watch(t.Context())
	}
	took := map[*Machine][]time.Duration{}
	for i := range 21 {
		for _, machine := range []*Machine{quiet, watched, followed} {
			began := time.Now()
			machine.MoveAll([]State{Warming, Ready}[i%2], "test")
			took[machine] = append(took[machine], time.Since(began))
			if machine == watched && i > 0 { // the first move, from starting to warming, says nothing new
				everybody()
			}
		}
	}
	median := func(machine *Machine) time.Duration {
		slices.Sort(took[machine])

		return took[machine][len(took[machine])/2]
	}
	t.Logf("a move takes %v, with 1000 watches %v, with 1000 that follow by themselves %v", median(quiet), median(watched), median(followed))
	if 3*median(watched) > median(followed) {
		t.Errorf("a move takes %v with 1000 watches, expected less than a third of the control's %v", median(watched), median(followed))
	}
}

func TestAWatchThatLeavesIsForgotten(t *testing.T) {
	machine := NewMachine(Settings{})
	p := openPort(t, machine)
	stays, leaves := p.dial(t), p.dial(t)
	for _, test := range []struct {
		name  string
		leave func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"cancel", context.WithCancel},
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := test.leave(t.Context())
			defer cancel()
			watch, err := leaves.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			watching{watch}.expect(t, servesNone)
			if followers(machine) != 1 {
				t.Error("nobody follows the machine")
			}
			if test.name == "cancel" {
				cancel()
			}
			eventually(t, "nobody follows the machine", func() bool { return followers(machine) == 0 })
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	leaving, err := leaves.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	watching{leaving}.expect(t, servesNone)
	staying := beginWatch(t, stays, "")
	staying.expect(t, servesNone)
	cancel()
	warm(t, machine)
	staying.expect(t, serves)
	if followers(machine) != 1 {
		t.Error("who left took along who stays")
	}
}

func TestWatchesAreBounded(t *testing.T) {
	full := &services{machine: NewMachine(Settings{})}
	full.audience = newAudience(full.machine)
	for i := range maxWatches {
		if !full.audience.join() {
			t.Fatalf("watch %d is refused", i)
		}
	}
	if err := full.Watch(&grpc_health_v1.HealthCheckRequest{}, nil); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	full.audience.leave()
	if !full.audience.join() {
		t.Error("there is no room after one has left")
	}
	for range maxWatches {
		full.audience.leave()
	}
	eventually(t, "nobody follows the machine", func() bool { return followers(full.machine) == 0 })
}
