package steady

import "math"

// medianOf values in order of size; NaN without any.
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

// trimmedOffEnd is the share of the values that a trimmed mean leaves out at each end.
const trimmedOffEnd = 0.1

func trimmedMean(sorted []float64) float64 {
	off := int(trimmedOffEnd * float64(len(sorted)))
	kept := sorted[off : len(sorted)-off]
	sum := 0.0
	for _, value := range kept {
		sum += value
	}

	return sum / float64(len(kept))
}
