package warmup

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// verify sends requests of all shapes in shuffled order. A shape that moved or spiked goes back; those that did not are through.
func (w *inference) verify(ctx context.Context) error {
	for round := 1; ; round++ {
		var open []*shape
		for _, s := range w.base {
			if s.meter.result().Steady() && !s.report.State.Warm() {
				open = append(open, s)
			}
		}
		if len(open) == 0 {
			return nil
		}
		if round > sweepRounds {
			for _, s := range open {
				s.meter.reject()
				w.see(s)
				w.set(s, ShapeNotConverged, fmt.Sprintf("it moved in each of %d verifications", sweepRounds))
			}

			return nil
		}
		if err := w.sweep(ctx, open); err != nil {
			return err
		}
		for _, s := range open {
			if err := w.settle(ctx, s); err != nil {
				return w.failed(s, err)
			}
		}
	}
}

// sweep is one round of verification.
func (w *inference) sweep(ctx context.Context, open []*shape) error {
	order := make([]*shape, 0, len(open)*sweepRequests)
	for range sweepRequests {
		order = append(order, open...)
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] }) //nolint:gosec // an order needs no secrecy
	seen := map[*shape][]sample{}
	for _, s := range order {
		samples, err := w.volley(ctx, s, s.concurrency)
		if err != nil {
			return w.failed(s, err)
		}
		seen[s] = append(seen[s], samples...)
	}
	for _, s := range open {
		verified := s.meter.verify(seen[s])
		w.run.runner.mu.Lock()
		s.report.Rounds++
		w.run.runner.mu.Unlock()
		w.see(s)
		switch {
		case verified && s.meter.result() == steady.Multimodal:
			w.set(s, ShapeMultimodal, "")
		case verified:
			w.set(s, ShapeConverged, "")
		}
	}

	return nil
}
