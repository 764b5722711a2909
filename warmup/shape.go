package warmup

import (
	"slices"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

const (
	// sweepRequests is how many requests, or volleys, of a shape one verification has.
	sweepRequests = 5
	// sweepRounds is how often a shape may go back after a verification before it counts as not converged.
	sweepRounds = 3
	// passVolleys is how many volleys at a higher concurrency each shape gets.
	passVolleys = 2
	// guessedBatch is the largest batch that is tried when the metadata names none.
	guessedBatch = 8
	// leastRequests is how few requests can make a shape converge: five for a level, the fifth being the first of ten clean ones.
	leastRequests = 14
)

// shape is one shape in a run. Its Detector belongs to the goroutine of its lane; its report is guarded by Runner.mu.
type shape struct {
	shape       backend.Shape
	concurrency int
	// guessed is true when nothing says that the server takes this shape.
	guessed  bool
	detector *steady.Detector
	report   ShapeReport
}

// grid returns the shapes of a model: the base ones, at the lowest concurrency, extremes first, then the same at each higher concurrency.
func grid(s step, model backend.Model, workers int) (base, higher []*shape) {
	batches, guessed := batches(s.infer.Grid.Batch, model)
	concurrencies := slices.Clone(s.infer.Grid.Concurrency)
	if len(concurrencies) == 0 {
		concurrencies = []int{1, max(workers, 1)}
	}
	slices.Sort(concurrencies)
	concurrencies = slices.Compact(concurrencies)
	for i, concurrency := range concurrencies {
		for _, batch := range batches {
			made := &shape{
				shape: backend.Shape{Batch: batch}, concurrency: concurrency, guessed: guessed && batch > 1,
				report: ShapeReport{Step: s.name, Model: model.Name, Batch: batch, Concurrency: concurrency},
			}
			if i == 0 {
				made.detector = steady.New(steady.Settings{Max: s.infer.MaxRequests})
				base = append(base, made)
			} else {
				higher = append(higher, made)
			}
		}
	}

	return base, higher
}

// batches returns the batch sizes to warm, extremes first: engines that are built for a range are built for the whole range at once then.
func batches(configured []int, model backend.Model) (sizes []int, guessed bool) {
	sizes = slices.Clone(configured)
	if len(sizes) == 0 {
		sizes = []int{1}
		largest := 1
		if model.Batched {
			largest, guessed = model.MaxBatch, false
			if largest == 0 {
				largest, guessed = guessedBatch, true
			}
		}
		for size := 2; size < largest; size *= 2 {
			sizes = append(sizes, size)
		}
		sizes = append(sizes, largest)
		for _, size := range model.Preferred {
			if size > 1 && size < largest {
				sizes = append(sizes, size)
			}
		}
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	if n := len(sizes); n > 2 {
		largest := sizes[n-1]
		copy(sizes[2:], sizes[1:n-1])
		sizes[1] = largest
	}

	return sizes, guessed
}

// remaining estimates how long the run will go on. Models are warmed side by side, so the longest counts. The caller holds Runner.mu.
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

// level is what a request of this shape takes, once that is known: the first ones tell what coldness costs.
func (s *shape) level() time.Duration {
	if s.report.Seen.N < 5 {
		return 0
	}

	return s.report.Seen.Level
}

// ahead is the least number of requests, one after the other, that the shape still needs.
func (s *shape) ahead() int {
	switch {
	case s.report.State != ShapeWaiting && s.report.State != ShapeWarming:
		return 0
	case s.detector == nil:
		// A volley may queue at the server.
		return passVolleys * s.concurrency
	case s.report.Seen.Result.Steady():
		return sweepRequests
	default:
		return max(1, leastRequests-s.report.Seen.N, 10-s.report.Seen.Clean) + sweepRequests
	}
}
