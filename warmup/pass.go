package warmup

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// crewVolleys is how many volleys reach each of several processes, at least two, that accept from one port. The kernel asks none of them in turn, and whoever accepts first may
// take a whole volley, so each volley counts as one process drawn by lot.
func crewVolleys(processes int) int {
	left := 1 - 1/float64(processes)

	return int(math.Ceil(math.Log(missedShare/float64(processes)) / math.Log(left)))
}

// pass sends volleys of a shape at a higher concurrency, so that every process behind the port gets its share. A request that waits for
// the others of its volley is no cold event; one that takes longer than all of them together is, and the pass is repeated.
func (w *inference) pass(ctx context.Context, s *shape) error {
	if s.report.State.decided() {
		return nil
	}
	single := w.single(s)
	if state := single.report.State; state == ShapeRefused || state == ShapeGivenUp {
		w.set(s, state, single.report.Text)

		return nil
	}
	if err := w.confirm(ctx, s); err != nil || s.report.State.decided() {
		return err
	}
	limit := time.Duration(s.concurrency) * single.limit()
	s.passLimit = limit
	var all []sample
	w.set(s, ShapeWarming, "")
	for range sweepRounds {
		clean := true
		for range w.volleys(s) {
			samples, err := w.volley(ctx, s, s.concurrency)
			if err != nil {
				return err
			}
			clean = clean && !slices.ContainsFunc(samples, func(took sample) bool { return limit > 0 && took.first > limit })
			all = append(all, samples...)
		}
		w.summarise(s, all, limit)
		switch {
		case w.node.infer.Until > 0:
			w.set(s, ShapeCounted, "")

			return nil
		case clean:
			w.set(s, ShapeConverged, "")

			return nil
		}
	}
	w.set(s, ShapeNotConverged, fmt.Sprintf("requests took longer than %v in each of %d passes", limit, sweepRounds))

	return nil
}

// volleys is how many of them one pass of a shape has.
func (w *inference) volleys(s *shape) int {
	if until := int(w.node.infer.Until); until > 0 {
		return (until + s.concurrency - 1) / s.concurrency
	}

	return s.volleys
}

// summarise reports a pass in the words of a Detector.
func (w *inference) summarise(s *shape, samples []sample, limit time.Duration) {
	all := make([]time.Duration, 0, len(samples))
	for _, took := range samples {
		all = append(all, took.first)
	}
	seen := steady.Report{N: len(all), First: all[0], Slowest: slices.Max(all)}
	for _, latency := range all {
		if limit > 0 && latency > limit {
			seen.ColdEvents++
			seen.Clean = 0
		} else {
			seen.Clean++
		}
	}
	seen.UpperColdRate = steady.UpperColdRate(seen.Clean)
	last := slices.Clone(all[max(0, len(all)-s.concurrency*s.volleys):])
	slices.Sort(last)
	seen.Level = last[len(last)/2]
	seen.P95 = last[(len(last)*95-1)/100]
	if seen.ColdEvents < len(all) && seen.Clean > 0 {
		seen.Result = steady.Converged
	}
	w.run.runner.mu.Lock()
	defer w.run.runner.mu.Unlock()
	s.report.Seen = seen
}
