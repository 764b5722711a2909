package steady

import (
	"math"
	"slices"
	"time"
)

// DefaultMax bounds the latencies of one Detector when Settings name no bound.
const DefaultMax = 200

// Settings is what a Detector is made of.
type Settings struct {
	// Max is how many latencies may be added before the result is NotConverged; 0 means DefaultMax.
	Max int
}

// Detector decides whether a series of latencies of one shape has converged. It looks for three kinds of coldness: rare big
// spikes (a clean streak), shifts of the level (windows whose medians must agree) and drift (a robust slope over a long baseline).
// What it cannot see is in Report: rare spikes and very slow drift do not show in a number of requests that anybody would pay for.
//
// A Detector allocates nothing after New. It must not be used by more than one goroutine at a time.
type Detector struct {
	max    int
	n      int
	result Result

	// ring holds the last latencies, in seconds; spiked says which of them were cold events. Both are indexed by number modulo history.
	ring   [history]float64
	spiked [history]bool
	// since counts the latencies that count as history: all of them, or those since the level moved.
	since int

	best  float64
	clean int
	cold  int
	first time.Duration
	worst time.Duration

	scratch [history]float64
}

// New returns a Detector that has seen nothing.
func New(s Settings) *Detector {
	if s.Max <= 0 {
		s.Max = DefaultMax
	}

	return &Detector{max: s.Max, best: math.Inf(1)}
}

// Add takes the next latency, in the order in which requests ended, and returns the result so far. Once the result is not Undecided
// further latencies are still taken into account, but only Verify goes back on it.
func (d *Detector) Add(latency time.Duration) Result {
	d.add(latency)
	d.decide()

	return d.result
}

// Result returns the result so far.
func (d *Detector) Result() Result { return d.result }

// Limit is the latency above which a request of this shape is a cold event; 0 while too little is known.
func (d *Detector) Limit() time.Duration {
	if d.since < recent {
		return 0
	}

	return seconds(d.limit())
}

// Ceiling is the latency up to which one more request belongs to what was found warm: the level and its noise, or any of the modes. 0 while too little is known.
func (d *Detector) Ceiling() time.Duration {
	if d.since < recent {
		return 0
	}
	_, _, limit := d.bounds()

	return seconds(limit)
}

// Verify takes latencies that were measured for this shape in between those of other shapes, once it was warm. It returns true when
// they belong to the distribution that was found warm; else the shape is cold again: the result goes back to Undecided (or NotConverged when
// the bound is reached), and what was seen before counts no more, since it says nothing about the level after the move.
func (d *Detector) Verify(latencies []time.Duration) bool {
	if len(latencies) == 0 || d.result != Converged && d.result != Multimodal {
		return false
	}
	low, high, limit := d.bounds()
	sorted := make([]float64, 0, len(latencies))
	good := true
	for _, latency := range latencies {
		d.add(latency)
		sorted = append(sorted, latency.Seconds())
		good = good && latency.Seconds() <= limit
	}
	slices.Sort(sorted)
	if middle := medianOf(sorted); good && middle >= low && middle <= high {
		return true
	}
	d.clean = 0
	d.since = min(len(latencies), history)
	d.best = math.Inf(1)
	if d.since >= recent {
		d.best = d.median(recent)
	}
	d.result = Undecided
	if d.n >= d.max {
		d.result = NotConverged
	}

	return false
}

// Reject ends the series as NotConverged, whatever the latencies say: the caller's budget is used up.
func (d *Detector) Reject() { d.result = NotConverged }

func (d *Detector) add(latency time.Duration) {
	if d.n == 0 {
		d.first = latency
	}
	d.worst = max(d.worst, latency)
	at := d.n % history
	d.ring[at], d.spiked[at] = latency.Seconds(), false
	d.n++
	d.since++
	if d.since < recent {
		return
	}
	d.best = min(d.best, d.median(recent))
	limit := d.limit()
	if d.since == recent {
		// Only now is there a level to hold the first ones against.
		for back := 1; back < recent; back++ {
			d.mark(back, limit)
		}
	}
	if d.mark(0, limit) {
		d.clean = 0
	} else {
		d.clean++
	}
}

// mark notes whether the latency that lies back before the last one is a cold event.
func (d *Detector) mark(back int, limit float64) bool {
	at := (d.n - 1 - back) % history
	if d.ring[at] <= limit || d.spiked[at] {
		return d.spiked[at]
	}
	d.spiked[at] = true
	d.cold++

	return true
}

// median of the last n latencies.
func (d *Detector) median(n int) float64 { return medianOf(d.sorted(n)) }

// deviation is the median absolute deviation of the last n latencies.
func (d *Detector) deviation(n int) float64 {
	values := d.sorted(n)
	middle := medianOf(values)
	for i, value := range values {
		values[i] = math.Abs(value - middle)
	}
	slices.Sort(values)

	return medianOf(values)
}

// sorted returns the last n latencies in order of size; the next call overwrites them.
func (d *Detector) sorted(n int) []float64 {
	values := d.copyOut(0, n)
	slices.Sort(values)

	return values
}

// copyOut returns those latencies, newest first, that lie at least from and less than to before the last one; the next call overwrites them.
func (d *Detector) copyOut(from, to int) []float64 {
	values := d.scratch[:0]
	for back := from; back < min(to, d.since, history); back++ {
		values = append(values, d.ring[(d.n-1-back)%history])
	}

	return values
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
