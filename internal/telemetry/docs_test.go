package telemetry

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/otlptranslator"
)

var update = flag.Bool("update", false, "write the page of metrics")

const docs = "../../docs/metrics.md"

// promName is what Prometheus calls a metric.
func promName(t *testing.T, m Metric) string {
	t.Helper()
	var kind otlptranslator.MetricType = otlptranslator.MetricTypeGauge
	switch m.Kind {
	case Counter:
		kind = otlptranslator.MetricTypeMonotonicCounter
	case Histogram:
		kind = otlptranslator.MetricTypeHistogram
	case Gauge:
	}
	namer := otlptranslator.NewMetricNamer("", translation)
	name, err := namer.Build(otlptranslator.Metric{Name: m.Name, Unit: m.Unit, Type: kind})
	if err != nil {
		t.Fatal(err)
	}

	return name
}

const preface = `# Metrics

<!-- Generated from internal/telemetry/catalogue.go by "go generate ./internal/telemetry": change it there. -->

` + "`/metrics` on the health port answers in Prometheus' text format, and in OpenMetrics, with exemplars that lead to traces, for who asks for it. `telemetry.metrics.otlp` pushes the same to an OpenTelemetry collector, under the names of the second column, each minute and once more at the end. With `telemetry.metrics.include_backend` the page has the backend's own metrics too (3 s and 8 MiB at the most); on the data port `/metrics` is the backend's alone, untouched." + `

Every label takes few values, whatever clients send: no Host, path, user agent, address or body is in any of them. Beyond 1000 series of one metric the rest is counted together, with the label ` + "`otel_metric_overflow`" + `. Durations are in seconds, in buckets of powers of two from 1 ms to 1049 s, whose bounds read the same in both formats.

| Prometheus | OpenTelemetry | type | unit | labels | meaning |
|---|---|---|---|---|---|
`

func page(t *testing.T) string {
	t.Helper()
	text := &strings.Builder{}
	text.WriteString(preface)
	for _, id := range IDs() {
		m := Of(id)
		labels := make([]string, 0, len(m.Labels))
		for _, label := range m.Labels {
			labels = append(labels, "`"+strings.ReplaceAll(label, ".", "_")+"`")
		}
		unit := m.Unit
		if unit == "" {
			unit = "-"
		}
		fmt.Fprintf(text, "| `%s` | `%s` | %s | %s | %s | %s |\n", promName(t, m), m.Name, m.Kind, unit, strings.Join(labels, " "), m.Meaning)
	}

	return text.String()
}

// TestDocsAreFresh keeps the page equal to the table that the instruments are made from. It is the generator too.
func TestDocsAreFresh(t *testing.T) {
	want := page(t)
	if *update {
		if err := os.WriteFile(docs, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}

		return
	}
	got, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/metrics.md is stale: run \"go generate ./internal/telemetry\" and commit the result")
	}
}

func TestEveryRowIsWhole(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, id := range IDs() {
		m := Of(id)
		if m.Name == "" || m.Meaning == "" || !strings.HasSuffix(m.Meaning, ".") {
			t.Errorf("row %d has no name or no sentence: %+v", id, m)
		}
		if seen[m.Name] {
			t.Errorf("%s is there twice", m.Name)
		}
		seen[m.Name] = true
		if m.Kind == Histogram && m.Unit != "s" {
			t.Errorf("%s: the buckets are seconds, the unit is %q", m.Name, m.Unit)
		}
	}
}

func TestKindsSpeakTheirWords(t *testing.T) {
	t.Parallel()
	for i, want := range []string{"gauge", "counter", "histogram"} {
		if got, err := KindValues()[i].MarshalText(); err != nil || string(got) != want {
			t.Errorf("%d is %q, %v, expected %q", i, got, err, want)
		}
	}
	if Kind(77).String() != "Kind(77)" {
		t.Errorf("a value that is none prints %q", Kind(77))
	}
}
