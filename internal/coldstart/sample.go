package coldstart

import (
	"math"
	"slices"
	"time"
)

// Sample is what became of one request. Times count from t=0, the moment the backend was started.
type Sample struct {
	// Shape names what makes the request cold or warm, such as its batch size.
	Shape string
	// Due is when the open-loop schedule wanted the request sent; latency counts from here, whatever the client waited for.
	Due time.Duration
	// Done is when the whole answer had been read, or the client gave up.
	Done time.Duration
	// Hold is how long Pilotlight held the request, as its Server-Timing header says.
	Hold time.Duration
	// Status is the HTTP status of the last try, 0 when there was no answer.
	Status int
	// Tries counts how often the request was sent.
	Tries int
	// Right says that the answer was the expected one.
	Right bool
	// Err says why there was no answer.
	Err string
}

// Latency is how long the user waited.
func (s Sample) Latency() time.Duration { return s.Done - s.Due }

// Succeeded says that the user got an answer with a 200.
func (s Sample) Succeeded() bool { return s.Status == 200 && s.Err == "" }

// Samples are the samples of one arm, in the order in which they were due.
type Samples []Sample

// Where returns the samples that keep says yes to.
func (s Samples) Where(keep func(Sample) bool) Samples {
	var kept Samples
	for _, sample := range s {
		if keep(sample) {
			kept = append(kept, sample)
		}
	}

	return kept
}

// DueFrom returns the samples due at or after start.
func (s Samples) DueFrom(start time.Duration) Samples {
	return s.Where(func(sample Sample) bool { return sample.Due >= start })
}

// Shape returns the samples of one shape.
func (s Samples) Shape(shape string) Samples {
	return s.Where(func(sample Sample) bool { return sample.Shape == shape })
}

// Succeeded returns the samples that got an answer with a 200.
func (s Samples) Succeeded() Samples { return s.Where(Sample.Succeeded) }

// Right returns the samples whose answer was the expected one.
func (s Samples) Right() Samples { return s.Where(func(sample Sample) bool { return sample.Right }) }

// Held returns the samples that Pilotlight held for at least a millisecond.
func (s Samples) Held() Samples {
	return s.Where(func(sample Sample) bool { return sample.Hold >= time.Millisecond })
}

// LongestHold returns the longest time that Pilotlight held one of the samples.
func (s Samples) LongestHold() time.Duration {
	var longest time.Duration
	for _, sample := range s {
		longest = max(longest, sample.Hold)
	}

	return longest
}

// Slowest returns the longest latency.
func (s Samples) Slowest() time.Duration { return s.Percentile(100) }

// Percentile returns the p-th percentile of the latencies by nearest rank, 0 when there are no samples.
func (s Samples) Percentile(p float64) time.Duration {
	latencies := make([]time.Duration, 0, len(s))
	for _, sample := range s {
		latencies = append(latencies, sample.Latency())
	}

	return Percentile(latencies, p)
}

// Percentile returns the p-th percentile of values by nearest rank, 0 when there are none. It sorts values.
func Percentile(values []time.Duration, p float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	rank := int(math.Ceil(p / 100 * float64(len(values))))

	return values[min(max(rank, 1), len(values))-1]
}

// Steady says, for each shape, what a warm answer takes.
type Steady map[string]Level

// Level is the warm latency of one shape: its median and its 99th percentile over N samples.
type Level struct {
	P50 time.Duration
	P99 time.Duration
	N   int
}

// SteadyOf reads the warm level of each shape off samples that were taken long after the start.
func SteadyOf(samples Samples) Steady {
	steady := Steady{}
	for _, sample := range samples {
		if _, done := steady[sample.Shape]; done {
			continue
		}
		shape := samples.Shape(sample.Shape).Succeeded()
		steady[sample.Shape] = Level{P50: shape.Percentile(50), P99: shape.Percentile(99), N: len(shape)}
	}

	return steady
}

// Limit is from when on a request counts as slow: Factor times the warm 99th percentile of its shape, and at least Floor. A warm server stays within its
// steady distribution, whose tail on a shared machine is wider than its middle; a cold one does not come near it. The floor is what such a machine
// does by itself now and then, to warm servers too: it stops everything for some tens of milliseconds.
type Limit struct {
	Factor float64
	Floor  time.Duration
}

// Slow returns the samples beyond the limit.
func (s Samples) Slow(steady Steady, limit Limit) Samples {
	return s.Where(func(sample Sample) bool {
		level, known := steady[sample.Shape]

		return known && float64(sample.Latency()) > max(limit.Factor*float64(level.P99), float64(limit.Floor))
	})
}

// FirstOverSteady returns, over the first sample of each shape, the largest ratio of its latency to the warm median of its shape.
func (s Samples) FirstOverSteady(steady Steady) (worst float64, shape string) {
	seen := map[string]bool{}
	for _, sample := range s {
		level, known := steady[sample.Shape]
		if seen[sample.Shape] || !known || level.P50 == 0 {
			continue
		}
		seen[sample.Shape] = true
		if ratio := float64(sample.Latency()) / float64(level.P50); ratio > worst {
			worst, shape = ratio, sample.Shape
		}
	}

	return worst, shape
}
