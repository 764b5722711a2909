package main

import "fmt"

// threshold is a promise about Pilotlight, with the limit at which it is broken.
type threshold struct {
	arm     string
	measure string
	// relative says that the limit is a multiple of the floor's figure in the same round.
	relative bool
	// atLeast says that less than the limit is too little; otherwise more is too much.
	atLeast bool
	limit   float64
}

var thresholds = []threshold{
	{arm: pilotlightArm, measure: "c32_rps", relative: true, atLeast: true, limit: 1.6},
	{arm: pilotlightTelemetry, measure: "c32_rps", relative: true, atLeast: true, limit: 1.4},
	{arm: pilotlightArm, measure: "c1_p50", relative: true, limit: 0.8},
	{arm: pilotlightArm, measure: "r100_cpu", relative: true, limit: 1},
	{arm: pilotlightArm, measure: "r1000_cpu", relative: true, limit: 1},
	{arm: pilotlightArm, measure: "r100_p99", relative: true, limit: 1},
	{arm: pilotlightArm, measure: "r1000_p99", relative: true, limit: 1},
	{arm: pilotlightArm, measure: idleMemory, limit: 30},
	{arm: pilotlightArm, measure: loadedMemory, limit: 45},
}

// verdict is what the rounds say about a promise.
type verdict string

const (
	// kept: the whole interval is on the good side.
	kept verdict = "kept"
	// undecided: the limit lies within the interval. More rounds would decide; the promise does not fail.
	undecided verdict = "undecided"
	// missed: the whole interval is on the bad side.
	missed verdict = "missed"
	// unmeasured: there were no rounds to judge by.
	unmeasured verdict = "not measured"
)

// judgement is a promise and what became of it.
type judgement struct {
	threshold

	got     interval
	verdict verdict
}

// judge judges a promise by the figures.
func judge(t threshold, f figures) judgement {
	values := f.known(t.arm, t.measure)
	if t.relative {
		values = ratios(f.rounds(t.arm, t.measure), f.rounds(floorArm, t.measure))
	}
	if len(values) == 0 {
		return judgement{threshold: t, verdict: unmeasured}
	}
	j := judgement{threshold: t, got: bootstrap(values)}
	// Seen from the good side, both kinds of limit are the same.
	worst, best, limit := j.got.High, j.got.Low, t.limit
	if t.atLeast {
		worst, best, limit = -j.got.Low, -j.got.High, -t.limit
	}
	switch {
	case best > limit:
		j.verdict = missed
	case worst <= limit:
		j.verdict = kept
	default:
		j.verdict = undecided
	}

	return j
}

// expected is the promise in words.
func (t threshold) expected(unit string) string {
	bound := "at most"
	if t.atLeast {
		bound = "at least"
	}
	if t.relative {
		return fmt.Sprintf("%s %.2f times the floor's", bound, t.limit)
	}

	return fmt.Sprintf("%s %g %s", bound, t.limit, unit)
}

// found is what was measured, in words.
func (j judgement) found(unit string) string {
	switch {
	case j.verdict == unmeasured:
		return "-"
	case j.relative:
		return fmt.Sprintf("%.2f [%.2f, %.2f]", j.got.Median, j.got.Low, j.got.High)
	default:
		return fmt.Sprintf("%.1f [%.1f, %.1f] %s", j.got.Median, j.got.Low, j.got.High, unit)
	}
}
