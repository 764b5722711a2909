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

// volley sends a volley of a shape once there is room for it.
func (w *inference) volley(ctx context.Context, s *shape, n int) ([]sample, error) {
	room := w.run.room
	if w.slow {
		room = w.rest
	}
	if err := room(ctx); err != nil {
		return nil, err
	}
	if err := w.run.afford(); err != nil {
		return nil, err
	}
	began := time.Now()
	if s.spare {
		w.run.runner.suspects.ask(s.suspect())
	}
	samples, err := w.fire(ctx, s, n)
	if s.spare {
		w.run.runner.suspects.told(ctx, s.suspect(), err)
	}
	if w.slow {
		w.run.background.lastTook = time.Since(began)
	}

	return samples, err
}

// fire sends n requests at once, each over a connection of its own, and returns what those took that were answered well.
func (w *inference) fire(ctx context.Context, s *shape, n int) ([]sample, error) {
	if n == 1 {
		took, err := w.send(ctx, s)
		if err != nil {
			return nil, err
		}

		return []sample{took}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex
	var samples []sample
	var first error
	for range n {
		group.Go(func() {
			took, err := w.send(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				samples = append(samples, took)
			case first == nil:
				first = err
				cancel()
			}
		})
	}
	group.Wait()

	return samples, first
}

// send makes one inference. A backend without room is asked again, for as long as the try goes on: while it warms up, that is no failure.
func (w *inference) send(ctx context.Context, s *shape) (sample, error) {
	runner := w.run.runner
	seed := w.node.seed(runner)
	request, err := w.dialect.Request(w.described, s.shape, seed)
	if err != nil {
		return sample{}, err
	}
	act := "infer " + w.model + " " + s.report.Shape()
	pause := backoff{next: busyFirst, limit: busyMost}
	for {
		answer, err := w.ask(ctx, s, act, request)
		if err == nil {
			err = w.dialect.Check(act, answer, w.node.expect)
		}
		busy := errors.Is(err, backend.ErrBusy)
		if err == nil {
			err = w.compare(ctx, act, s.shape, seed, answer)
		}
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
			took := newSample(answer.Timing, request.Streams)
			if err == nil {
				w.took(s, answer.Timing)
				if tell := runner.settings.Answered; tell != nil {
					s.told.Do(func() { tell(w.model, s.shape, request.Path, request.Body) })
				}
			}

			return took, err
		}
		if stopped := pause.wait(ctx); stopped != nil {
			return sample{}, fmt.Errorf("%w; last answer: %w", stopped, err)
		}
	}
}

// took notes how long a whole answer took.
func (w *inference) took(s *shape, timing backend.Timing) {
	w.run.runner.mu.Lock()
	defer w.run.runner.mu.Unlock()
	s.events = timing.Events
	s.report.Slowest = max(s.report.Slowest, timing.Total)
}

// ask sends a request within the limit of its shape.
func (w *inference) ask(ctx context.Context, s *shape, act string, request backend.Request) (backend.Answer, error) {
	w.run.runner.mu.Lock()
	slowest := s.report.Slowest
	w.run.runner.mu.Unlock()
	if slowest > 0 {
		limit := max(answerLeast, answerTimes*slowest)
		limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
		defer cancel()
		ctx = limited
	}
	answer, err := w.run.runner.compute(ctx, w.run, request)
	if failed, ok := errors.AsType[*backend.Error](err); ok {
		failed.Act = act
	}

	return answer, err
}
