package proxy

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// withTelemetry switches on for a rig what the name of its test asks for: withMetrics, withTraces.
func withTelemetry(t *testing.T, s *Settings) {
	t.Helper()
	if strings.Contains(t.Name(), withMetrics) {
		s.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())).Meter("test")
	}
	if strings.Contains(t.Name(), withTraces) {
		spans := tracetest.NewSpanRecorder()
		s.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.AlwaysSample())).Tracer("test")
		s.Propagator = propagation.TraceContext{}
		t.Cleanup(func() {
			if !t.Failed() && len(spans.Started()) == 0 {
				t.Error("no span has begun: nothing was traced")
			}
		})
	}
}

const (
	withMetrics = "metrics"
	withTraces  = "traces"
)

// TestStreamsAreTheSameWithTelemetry runs the rows about streams, tunnels and trailers once more with metrics, with traces of every request, and with both; without either they run elsewhere.
func TestStreamsAreTheSameWithTelemetry(t *testing.T) {
	t.Parallel()
	for _, on := range []string{withMetrics, withTraces, withMetrics + " and " + withTraces} {
		for name, row := range map[string]func(*testing.T, Transport){
			"C02 flushed at once": streamsAreFlushedAtOnce, "C03 no total timeout": tokenStreamsHaveNoTotalTimeout, "C14 tunnel": tunnelOutlivesTheTimeouts,
			"C24 held body": heldBodyArrivesByteForByte, "trailers": trailersPassBothWays, "interim answers": interimAnswersPass,
		} {
			t.Run(on+"/"+name, func(t *testing.T) { perTransport(t, row) })
		}
	}
}
