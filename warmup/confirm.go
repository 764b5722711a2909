package warmup

import (
	"context"
	"slices"
	"time"
)

// confirm settles a shape at a higher concurrency by as few volleys as show that it is warm, where a record says that it was.
func (w *inference) confirm(ctx context.Context, s *shape) error {
	var all []sample
	for s.unconfirmed > 0 {
		w.set(s, ShapeWarming, "")
		samples, err := w.volley(ctx, s, s.concurrency)
		if err != nil {
			return err
		}
		all = append(all, samples...)
		w.summarise(s, all, s.was.Limit)
		if w.confirmedBy(s, samples) {
			w.set(s, ShapeConfirmed, "")
		}
	}

	return nil
}

// believe takes what a record says about a shape; nil: nothing. One volley confirms it, but where it has to reach each of several processes. The caller holds Runner.mu.
func (w *inference) believe(s *shape, was *warmShape) {
	s.was = was
	switch {
	case was == nil:
	case s.crew:
		s.unconfirmed = w.volleys(s)
	default:
		s.unconfirmed = 1
	}
}

// confirmedBy says whether a volley was the last one to confirm a shape. One that took longer than when the shape was warm ends the matter.
func (w *inference) confirmedBy(s *shape, samples []sample) bool {
	w.run.runner.mu.Lock()
	defer w.run.runner.mu.Unlock()
	switch {
	case s.unconfirmed == 0:
		return false
	case !s.was.admits(samples):
		s.unconfirmed = 0

		return false
	default:
		s.unconfirmed--

		return s.unconfirmed == 0
	}
}

// single is the shape at the lowest concurrency.
func (w *inference) single(s *shape) *shape {
	return w.base[slices.IndexFunc(w.base, func(b *shape) bool { return b.shape == s.shape })]
}

// limit is what one answer may take and be no cold event; 0 while nobody knows.
func (s *shape) limit() time.Duration {
	if limit := s.meter.limit(); limit > 0 || s.was == nil {
		return limit
	}

	return s.was.Limit
}
