package warmup

import (
	"context"
	"slices"
	"time"
)

// confirm settles a shape at a higher concurrency by one volley, where a record says that it was warm.
func (w *inference) confirm(ctx context.Context, s *shape) error {
	if s.was == nil {
		return nil
	}
	w.set(s, ShapeWarming, "")
	samples, err := w.volley(ctx, s, s.concurrency)
	if err != nil {
		return err
	}
	w.summarise(s, samples, s.was.Limit)
	if s.was.admits(samples) {
		w.set(s, ShapeConfirmed, "")
	}

	return nil
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
