package steady

import (
	"math"
	"time"
)

// Report is what a series showed, and how much that is worth.
type Report struct {
	Result Result `json:"result"`
	// N is the number of latencies seen.
	N int `json:"n"`
	// Level is the median of the last ten latencies.
	Level time.Duration `json:"level_ns"`
	// P95 is the 95th percentile of what is held to be warm: the clean streak, or all modes.
	P95 time.Duration `json:"p95_ns"`
	// First and Slowest tell what coldness cost.
	First   time.Duration `json:"first_ns"`
	Slowest time.Duration `json:"slowest_ns"`
	// ColdEvents counts the latencies that stood out above the level and its noise.
	ColdEvents int `json:"cold_events"`
	// Clean is the number of latencies since the last cold event.
	Clean int `json:"clean"`
	// UpperColdRate is the 95 % upper bound on the share of requests that still are cold events, given Clean ones that were not:
	// 10 still allow 26 %, 59 allow 5 %.
	UpperColdRate float64 `json:"upper_cold_rate"`
}

// Report returns what was seen so far.
func (d *Detector) Report() Report {
	report := Report{
		Result: d.result, N: d.n, First: d.first, Slowest: d.worst, ColdEvents: d.cold, Clean: d.clean,
	}
	if d.n == 0 {
		report.UpperColdRate = 1

		return report
	}
	warm := min(max(d.clean, 1), history)
	if d.result == Multimodal {
		// The upper mode is no cold event here, though it stands out above the lower one.
		warm = min(d.since, history)
		report.Clean = warm
		report.ColdEvents = max(0, d.cold-d.spikes())
	}
	report.UpperColdRate = UpperColdRate(report.Clean)
	report.Level = seconds(d.median(window))
	report.P95 = seconds(quantile(d.sorted(warm), 0.95))

	return report
}

// spikes counts the latencies marked as cold events among those looked back at.
func (d *Detector) spikes() int {
	count := 0
	for back := range min(d.since, history) {
		if d.spiked[(d.n-1-back)%history] {
			count++
		}
	}

	return count
}

// certainty is the chance that the true rate lies above the bound all the same.
const certainty = 0.05

// UpperColdRate is the 95 % upper bound on the rate of an event that did not show in clean trials.
func UpperColdRate(clean int) float64 {
	if clean <= 0 {
		return 1
	}

	return 1 - math.Pow(certainty, 1/float64(clean))
}
