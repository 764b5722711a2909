package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// percentile returns the smallest sample that at least p percent of the samples do not exceed. It sorts the samples; there must be one.
func percentile[T cmp.Ordered](samples []T, p float64) T {
	slices.Sort(samples)
	rank := int(math.Ceil(p / 100 * float64(len(samples))))

	return samples[min(max(rank, 1), len(samples))-1]
}

// median returns the middle of the values, which it leaves in their order; there must be one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}

	return (sorted[middle-1] + sorted[middle]) / 2
}

// interval is a median with the bounds between which it lies with a confidence of 95 %.
type interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// resamples is how often the bootstrap draws.
const resamples = 10_000

// bootstrap returns the median of the values, one of each round, and the 2.5th and 97.5th percentile of the medians of as many values drawn from them with replacement.
// The draws are the same each time: the same rounds give the same judgement.
func bootstrap(values []float64) interval {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // draws need to be repeatable, not secret
	medians := make([]float64, resamples)
	drawn := make([]float64, len(values))
	for i := range medians {
		for j := range drawn {
			drawn[j] = values[random.IntN(len(values))]
		}
		medians[i] = median(drawn)
	}

	return interval{Median: median(values), Low: percentile(medians, 2.5), High: percentile(medians, 97.5)}
}

// ratios divides the values of two arms round by round.
func ratios(of, to []float64) []float64 {
	out := make([]float64, 0, len(of))
	for i := range min(len(of), len(to)) {
		if to[i] > 0 && !math.IsNaN(of[i]) && !math.IsNaN(to[i]) {
			out = append(out, of[i]/to[i])
		}
	}

	return out
}
