package warmup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

const (
	// answerLeast and answerTimes limit a request of a shape that was answered before: a JIT compilation may take long, but not for ever. The
	// first request of a shape has the whole try, since nobody knows what it costs.
	answerLeast = 30 * time.Second
	answerTimes = 20
	// busyFirst and busyMost bound the pauses after a refusal for lack of room.
	busyFirst = 50 * time.Millisecond
	busyMost  = 2 * time.Second
)

// volley sends n requests at once, each over a connection of its own, and returns the latencies of those that were answered well.
func (w *inference) volley(ctx context.Context, s *shape, n int) ([]time.Duration, error) {
	if n == 1 {
		latency, err := w.send(ctx, s)
		if err != nil {
			return nil, err
		}

		return []time.Duration{latency}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex
	var latencies []time.Duration
	var first error
	for range n {
		group.Go(func() {
			latency, err := w.send(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				latencies = append(latencies, latency)
			case first == nil:
				first = err
				cancel()
			}
		})
	}
	group.Wait()

	return latencies, first
}

// send makes one inference. A backend without room is asked again, for as long as the try goes on: while it warms up, that is no failure.
func (w *inference) send(ctx context.Context, s *shape) (time.Duration, error) {
	runner := w.run.runner
	request, err := w.dialect.Request(w.described, s.shape, runner.seeds.Add(1))
	if err != nil {
		return 0, err
	}
	act := "infer " + w.model + " " + s.report.Shape()
	pause := backoff{next: busyFirst, limit: busyMost}
	for {
		answer, err := w.ask(ctx, s, act, request)
		if err == nil {
			err = w.dialect.Check(act, answer, w.node.expect())
		}
		busy := errors.Is(err, backend.ErrBusy)
		runner.mu.Lock()
		if busy {
			w.run.busy++
		} else if err == nil {
			w.run.requests++
		}
		runner.mu.Unlock()
		if err == nil {
			w.answered.Store(time.Now().UnixNano())
		}
		if !busy {
			return answer.Timing.Total, err
		}
		if stopped := pause.wait(ctx); stopped != nil {
			return 0, fmt.Errorf("%w; last answer: %w", stopped, err)
		}
	}
}

// ask sends a request within the limit of its shape.
func (w *inference) ask(ctx context.Context, s *shape, act string, request backend.Request) (backend.Answer, error) {
	w.run.runner.mu.Lock()
	slowest := s.report.Seen.Slowest
	w.run.runner.mu.Unlock()
	if slowest > 0 {
		limit := max(answerLeast, answerTimes*slowest)
		limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
		defer cancel()
		ctx = limited
	}
	answer, err := w.run.runner.settings.Client.Do(ctx, request)
	if failed, ok := errors.AsType[*backend.Error](err); ok {
		failed.Act = act
	}

	return answer, err
}
