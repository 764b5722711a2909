package warmup

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

const (
	// sweepRequests is how many requests, or volleys, of a shape one verification has.
	sweepRequests = 5
	// sweepRounds is how often a shape may go back after a verification before it counts as not converged.
	sweepRounds = 3
	// passVolleys is how many volleys at a higher concurrency each shape gets, where the server spreads them over its own workers.
	passVolleys = 2
	// missedShare is how likely a process behind a shared port may get nothing of a pass.
	missedShare = 0.01
	// leastRequests is how few requests can make a shape converge: five for a level, the fifth being the first of ten clean ones.
	leastRequests = 14
)

// shape is one shape in a run. Its meter belongs to the goroutine of its lane; its report is guarded by Runner.mu.
type shape struct {
	shape       backend.Shape
	concurrency int
	// volleys is how many of them a pass has, at a higher concurrency, and how many a shape at the lowest one has at least.
	volleys int
	// crew is true where they have to reach each of several processes behind one port.
	crew bool
	// guessed is true when nothing says that the server takes this shape.
	guessed bool
	// extra is true for a shape that was derived beyond the required ones, spare for these and those of optional steps: the pod can do without them.
	extra, spare bool
	// meter is nil for shapes at a higher concurrency, which get passes.
	meter  *meter
	report ShapeReport
	// was is what a record says about it; nil: nothing.
	was *warmShape
	// unconfirmed is how many volleys in a row must still be as it says; 0: it is confirmed, or will not be. Guarded by Runner.mu.
	unconfirmed int
	// passLimit is what a request of the latest pass was held against.
	passLimit time.Duration
	// events is how many the latest answer had, where it streamed; guarded by Runner.mu.
	events int
	told   sync.Once
}

// grid returns the shapes of a model: the base ones, at the lowest concurrency, extremes first, then the recorded ones, then the same at each higher concurrency.
func grid(s step, model backend.Model, workers int, recorded []backend.Shape) (base, higher []*shape, err error) {
	plan, err := planShapes(s.infer.Grid, model)
	if err != nil {
		return nil, nil, err
	}
	plan = append(plan, beyond(plan, recorded, model)...)
	concurrencies := slices.Clone(s.infer.Grid.Concurrency)
	if len(concurrencies) == 0 {
		concurrencies = []int{1, max(workers, 1)}
	}
	slices.Sort(concurrencies)
	concurrencies = slices.Compact(concurrencies)
	for i, concurrency := range concurrencies {
		for _, p := range plan {
			made := &shape{
				shape: p.shape, concurrency: concurrency, volleys: passVolleys, guessed: p.guessed, extra: p.extra, spare: p.extra || s.optional,
				report: ShapeReport{Step: s.name, Model: model.Name, Of: p.shape, Concurrency: concurrency},
			}
			if most := model.MaxTogether; most > 0 && concurrency > 1 && concurrency*(p.shape.InputTokens+p.shape.OutputTokens) > most {
				made.report.State = ShapeRefused
				made.report.Text = fmt.Sprintf("%d such requests are more than the server holds at once (%d tokens)", concurrency, most)
			}
			if i == 0 {
				made.meter, made.volleys = newMeter(s.infer.MaxRequests), 1
				base = append(base, made)
			} else {
				higher = append(higher, made)
			}
		}
	}

	return base, higher, nil
}

// remaining estimates how long the run will go on, without the background. Models are warmed side by side, so the longest counts. The caller holds Runner.mu.
func (c *run) remaining() time.Duration {
	if !c.ended.IsZero() {
		return 0
	}
	type key struct{ step, model string }
	lanes := map[key]time.Duration{}
	slowest := map[key]time.Duration{}
	for _, s := range c.shapes {
		at := key{s.report.Step, s.report.Model}
		slowest[at] = max(slowest[at], s.level())
	}
	for _, s := range c.shapes {
		if s.report.Background {
			continue
		}
		at := key{s.report.Step, s.report.Model}
		level := s.level()
		if level == 0 {
			level = slowest[at]
		}
		lanes[at] += time.Duration(s.ahead()) * level
	}
	var longest time.Duration
	for _, lane := range lanes {
		longest = max(longest, lane)
	}

	return longest
}

// level is what a whole answer of this shape takes, once that is known: the first ones tell what coldness costs. The caller holds Runner.mu.
func (s *shape) level() time.Duration {
	if s.report.Seen.N < 5 {
		if s.was != nil {
			return s.was.Level
		}

		return 0
	}
	if s.report.Gaps == nil {
		return s.report.Seen.Level
	}

	// Both are medians, so that one slow answer does not make the rest look long.
	return s.report.Seen.Level + time.Duration(max(s.events-1, 0))*s.report.Gaps.Level
}

// ahead is the least number of requests, one after the other, that the shape still needs.
func (s *shape) ahead() int {
	switch {
	case s.report.State != ShapeWaiting && s.report.State != ShapeWarming:
		return 0
	case s.unconfirmed > 0:
		return s.unconfirmed * s.concurrency
	case s.meter == nil:
		// A volley may queue at the server.
		return s.volleys * s.concurrency
	case s.report.Seen.Result.Steady():
		return sweepRequests
	default:
		return max(1, max(leastRequests, s.volleys*s.concurrency)-s.report.Seen.N, 10-s.report.Seen.Clean) + sweepRequests
	}
}
