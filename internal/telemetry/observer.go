package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Observer takes the facts of one scrape or push. It belongs to the function that it was given to, until that returns.
type Observer struct {
	to          metric.Observer
	instruments map[ID]metric.Float64Observable
}

// Set says what a metric is now; values are those of its labels, in the order of the catalogue, and an empty one leaves its label out.
// A counter must never fall. It panics when the number of values is not that of the labels, or when the metric is one that the proxy records by itself.
func (o *Observer) Set(id ID, value float64, values ...string) {
	row, instrument := catalogue[id], o.instruments[id]
	if len(values) != len(row.Labels) || instrument == nil {
		panic(fmt.Sprintf("observe %s: got %d values for the labels %v", row.Name, len(values), row.Labels)) //nolint:forbidigo // a slip of the pen, found by the first scrape
	}
	attributes := make([]attribute.KeyValue, 0, len(values))
	for i, text := range values {
		if text != "" {
			attributes = append(attributes, attribute.String(row.Labels[i], text))
		}
	}
	o.to.ObserveFloat64(instrument, value, metric.WithAttributes(attributes...))
}

// Flag says that something is so, or not.
func (o *Observer) Flag(id ID, is bool, values ...string) {
	number := 0.0
	if is {
		number = 1
	}
	o.Set(id, number, values...)
}

// recorded are the metrics that the proxy records request by request; all others are observed.
func recorded(id ID) bool { return id <= BodyBytes }

// Observe has facts called for each scrape and each push. It is called by several goroutines at once and must not wait for anything.
func (t *Telemetry) Observe(facts func(*Observer)) error {
	instruments := map[ID]metric.Float64Observable{} //nolint:exhaustive // the loop fills it
	var all []metric.Observable
	for _, id := range IDs() {
		if recorded(id) {
			continue
		}
		var instrument metric.Float64Observable
		var err error
		if row := catalogue[id]; row.Kind == Counter {
			instrument, err = t.meter.Float64ObservableCounter(row.Name, metric.WithUnit(row.Unit), metric.WithDescription(row.Meaning))
		} else {
			instrument, err = t.meter.Float64ObservableGauge(row.Name, metric.WithUnit(row.Unit), metric.WithDescription(row.Meaning))
		}
		if err != nil {
			return fmt.Errorf("make the metric %s: %w", catalogue[id].Name, err)
		}
		instruments[id], all = instrument, append(all, instrument)
	}
	_, err := t.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		facts(&Observer{to: to, instruments: instruments})

		return nil
	}, all...)
	if err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}

	return nil
}
