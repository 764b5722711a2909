package coldstart

import (
	"context"
	"sync"
	"time"
)

// Request is one request of the traffic, ready to be sent.
type Request struct {
	// Shape names what makes the request cold or warm.
	Shape string
	// Body is the whole body.
	Body []byte
	// Want is the expected answer, in the form that the Sender's Read returns.
	Want string
}

// Traffic is open-loop: requests are sent when they are due, whether or not earlier ones have been answered, because that is what users do;
// a client that waits for answers hides exactly the waiting that a cold start causes.
type Traffic struct {
	// Rate is the number of requests a second.
	Rate float64
	// Request returns the i-th request.
	Request func(i int) Request
	// Send carries out one request and reports what became of it.
	Send func(ctx context.Context, due time.Duration, request Request) Sample
	// InFlight bounds the requests in flight; one that finds no room is recorded as failed, unsent.
	InFlight int
}

// Run sends requests from start on until ctx ends, then waits for those in flight. The samples come back in the order in which they were due.
func (t Traffic) Run(ctx context.Context, start time.Time) Samples {
	var (
		mu      sync.Mutex
		samples Samples
		flights sync.WaitGroup
	)
	room := make(chan struct{}, t.InFlight)
	// In-flight requests outlive the schedule: each has a deadline of its own.
	flying := context.WithoutCancel(ctx)
	for i := 0; ; i++ {
		due := time.Duration(float64(i) / t.Rate * float64(time.Second))
		if !waitUntil(ctx, start.Add(due)) {
			break
		}
		request := t.Request(i)
		mu.Lock()
		samples = append(samples, Sample{Shape: request.Shape, Due: due, Done: due, Err: "no room among the client's requests in flight"})
		mu.Unlock()
		select {
		case room <- struct{}{}:
		default:
			continue
		}
		flights.Go(func() {
			defer func() { <-room }()
			sample := t.Send(flying, due, request)
			mu.Lock()
			samples[i] = sample
			mu.Unlock()
		})
	}
	flights.Wait()

	return samples
}

// waitUntil waits for moment and says whether ctx was still alive then.
func waitUntil(ctx context.Context, moment time.Time) bool {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Wait returns after d, or earlier when ctx ends.
func Wait(ctx context.Context, d time.Duration) { waitUntil(ctx, time.Now().Add(d)) }
