package telemetry

import (
	"go.opentelemetry.io/otel/sdk/metric"
)

// bounds are those of every histogram, in seconds: powers of two from 1 ms to 1049 s. A cold start, a token and a timeout fall into finite buckets of their own.
//
// None is a whole number, on purpose: OpenMetrics writes 1 as 1.0, so with whole numbers the same bucket would have two names, and a scraper that changes the format would lose its history.
func bounds() []float64 {
	const buckets = 21
	all := make([]float64, buckets)
	for i := range all {
		all[i] = float64(int(1)<<i) / 1000
	}

	return all
}

// view makes the stream of an instrument from its row in the catalogue. What has no row goes nowhere.
func view(instrument metric.Instrument) (metric.Stream, bool) {
	row, known := find(instrument.Name)
	if !known {
		return metric.Stream{Name: instrument.Name, Aggregation: metric.AggregationDrop{}}, true
	}
	stream := metric.Stream{Name: row.Name, Description: row.Meaning, Unit: row.Unit}
	if row.Kind == Histogram {
		stream.Aggregation = metric.AggregationExplicitBucketHistogram{Boundaries: bounds(), NoMinMax: true}
	}

	return stream, true
}
