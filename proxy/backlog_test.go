package proxy

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pilotlight-proxy/pilotlight/health"
)

// TestReleasedIsSaidOnceAllWhoWaitedAreAnswered opens a gate with requests held: answers have to begin for all of them, in whatever order, or they have to leave.
func TestReleasedIsSaidOnceAllWhoWaitedAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := 0
		gate := NewGate(GateSettings{
			Hold: DefaultHold(), Memory: 1 << 20, Concurrency: DefaultConcurrency(),
			Released: func() { released++ },
		})
		const held = 10
		var (
			tickets [held]Ticket
			through = make(chan *Ticket, held)
		)
		leaving, leave := context.WithCancel(t.Context())
		for i := range tickets {
			ctx := t.Context()
			if i == held-1 {
				ctx = leaving
			}
			go func() {
				if gate.Wait(ctx, &tickets[i], nil) == Proceed {
					through <- &tickets[i]
				}
			}()
			synctest.Wait()
		}
		if got := gate.Backlog(); got != held {
			t.Fatalf("backlog while holding: got %d, want %d", got, held)
		}
		gate.Follow(health.Move{From: health.Warming, To: health.Ready})
		synctest.Wait()
		for answered := range held - 2 {
			ticket := <-through
			gate.Good(ticket)
			if released != 0 {
				t.Fatalf("released after %d answers, with %d owed", answered+1, gate.Backlog())
			}
			gate.Done(ticket)
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		select { // the last but one is answered by an end without a good answer
		case ticket := <-through:
			gate.Done(ticket)
		default:
			t.Fatal("nobody is left")
		}
		for len(through) > 0 { // the one who left may have been let through before
			gate.Done(<-through)
		}
		synctest.Wait()
		if released != 1 || gate.Backlog() != 0 {
			t.Errorf("released %d times with %d owed, want once with none", released, gate.Backlog())
		}
		// A later opening without anybody held has nothing to say.
		gate.Follow(health.Move{From: health.Ready, To: health.Cold})
		gate.Follow(health.Move{From: health.Warming, To: health.Ready})
		if released != 1 {
			t.Errorf("released %d times, want once", released)
		}
	})
}

// TestReleasedIsNotSaidOfAGateThatHoldsAgain loses the backend while held requests are under way.
func TestReleasedIsNotSaidOfAGateThatHoldsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := 0
		gate := NewGate(GateSettings{Hold: DefaultHold(), Memory: 1 << 20, Concurrency: DefaultConcurrency(), Released: func() { released++ }})
		var ticket Ticket
		outcome := make(chan Outcome, 1)
		go func() { outcome <- gate.Wait(t.Context(), &ticket, nil) }()
		synctest.Wait()
		gate.Follow(health.Move{From: health.Warming, To: health.Ready})
		if got := <-outcome; got != Proceed {
			t.Fatalf("got %s", got)
		}
		gate.Follow(health.Move{From: health.Ready, To: health.Cold})
		gate.Done(&ticket)
		if released != 0 {
			t.Error("released, but the gate holds")
		}
	})
}
