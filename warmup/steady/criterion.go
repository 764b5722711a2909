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

	// levelShare and levelFloor are how far apart two medians may lie, and how much a slope may take off, and still be one level.
	levelShare = 0.05
	levelFloor = 500 * time.Microsecond
	// movedShare is the same for the median of a verification.
	movedShare = 0.10
	// A latency is a cold event beyond the best level and the largest of these: a share of it, an amount, and six standard deviations of
	// normal noise, for which 1.4826 median absolute deviations make one.
	spikeShare = 0.25
	spikeFloor = time.Millisecond
	spikeMADs  = 6 * 1.4826
	// trimmedShare and tailShare are how far the trimmed means, and the 95th percentiles, of two windows may lie apart and be one distribution.
	trimmedShare = 0.12
	tailShare    = 0.30
	// modesApart is how many times the best level the highest mode may be: what lies above is no mode but a spike.
	modesApart = 4
)

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
