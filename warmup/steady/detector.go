package steady

import (
	"math"
	"slices"
	"time"
)

// The criterion's numbers. They were chosen by simulation (TestSimulation); loosening one of them lets drift pass as warmth.
const (
	// window is w: the clean streak that convergence needs, and the length of the windows whose medians must agree.
	window = 10
	// history is how many latencies are looked back at: two windows of 2w for the multimodal test.
	history = 4 * window
	// trend is how many latencies the slope is estimated over.
	trend = 3 * window
	// recent is how many latencies make one reading of the level.
	recent = 5

	levelShare    = 0.05
	levelFloor    = 500 * time.Microsecond
	movedShare    = 0.10
	spikeShare    = 0.25
	spikeFloor    = time.Millisecond
	spikeMADs     = 6 * 1.4826
	trimmedShare  = 0.12
	tailShare     = 0.30
	modesApart    = 4
	certainty     = 0.05
	trimmedOffEnd = 0.1
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

// limit is the best level and what noise may add to it, in seconds.
func (d *Detector) limit() float64 {
	noise := max(spikeShare*d.best, spikeFloor.Seconds(), spikeMADs*d.deviation(window))

	return d.best + noise
}

// bounds returns what a verification is held against, in seconds: between low and high its median must lie, and no latency above limit.
func (d *Detector) bounds() (low, high, limit float64) {
	if d.result == Multimodal {
		// Warm means within the distribution, not near a median: any mode will do.
		all := d.sorted(history)
		low, high = quantile(all, 0.05), quantile(all, 0.95)
		limit = modesApart * d.best
	} else {
		low = d.median(window)
		high = low
		limit = d.limit()
	}
	slack := func(level float64) float64 { return max(movedShare*level, levelFloor.Seconds()) }

	return low - slack(low), high + slack(high), max(limit, d.best+spikeFloor.Seconds())
}

func (d *Detector) decide() {
	if d.result != Undecided {
		return
	}
	switch {
	case d.clean >= window && d.levelAgrees() && d.flat():
		d.result = Converged
	case d.since >= history && d.stationary() && d.flat():
		d.result = Multimodal
	case d.n >= d.max:
		d.result = NotConverged
	}
}

// levelAgrees compares the medians of the last window and the one before it, and of the halves of the last one.
func (d *Detector) levelAgrees() bool {
	level := d.median(window)
	tolerance := max(levelShare*level, levelFloor.Seconds())
	older := d.copyOut(window/2, window)
	slices.Sort(older)
	olderHalf := medianOf(older)
	newer := d.copyOut(0, window/2)
	slices.Sort(newer)
	if math.Abs(olderHalf-medianOf(newer)) > tolerance {
		return false
	}
	before := d.copyOut(window, 2*window)
	if len(before) < 3 {
		return true
	}
	slices.Sort(before)

	return math.Abs(medianOf(before)-level) <= tolerance
}

// stationary says whether two long windows show one distribution, of whatever shape, without a spike that would be no mode of it.
func (d *Detector) stationary() bool {
	newer := d.copyOut(0, history/2)
	slices.Sort(newer)
	newMean, newTail, highest := trimmedMean(newer), quantile(newer, 0.95), newer[len(newer)-1]
	older := d.copyOut(history/2, history)
	slices.Sort(older)
	oldMean, oldTail := trimmedMean(older), quantile(older, 0.95)
	highest = max(highest, older[len(older)-1])

	return math.Abs(newMean-oldMean) <= trimmedShare*max(newMean, oldMean) &&
		math.Abs(newTail-oldTail) <= tailShare*max(newTail, oldTail) &&
		highest <= modesApart*d.best
}

// flat says whether the latency is not improving any more: the Theil-Sen slope over the last 3w, spikes left out, takes less than the
// tolerance off the level over that span. The slope is a median, so it is enough to count the pairs on either side of what is tolerated.
func (d *Detector) flat() bool {
	level := d.median(window)
	points := min(d.since, trend)
	tolerated := -max(levelShare*level, levelFloor.Seconds()) / float64(points)
	pairs, steep := 0, 0
	for i := 1; i < points; i++ {
		newer := (d.n - points + i) % history
		if d.spiked[newer] {
			continue
		}
		for j := range i {
			older := (d.n - points + j) % history
			if d.spiked[older] {
				continue
			}
			pairs++
			if d.ring[newer]-d.ring[older] < tolerated*float64(i-j) {
				steep++
			}
		}
	}

	return pairs > 0 && 2*steep <= pairs
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

func medianOf(sorted []float64) float64 {
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	if n%2 == 1 {
		return sorted[n/2]
	}

	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// quantile by nearest rank.
func quantile(sorted []float64, q float64) float64 {
	return sorted[max(0, min(len(sorted)-1, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// trimmedMean leaves out a tenth at each end.
func trimmedMean(sorted []float64) float64 {
	off := int(trimmedOffEnd * float64(len(sorted)))
	kept := sorted[off : len(sorted)-off]
	sum := 0.0
	for _, value := range kept {
		sum += value
	}

	return sum / float64(len(kept))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
