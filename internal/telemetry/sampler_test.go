package telemetry

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// from is a context with a caller's decision.
func from(flags trace.TraceFlags) context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true,
	}))
}

func TestACallersDecisionIsNeverOverridden(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		share float64
		ctx   context.Context //nolint:containedctx // a table
		want  bool
	}{
		{"declined, though all are sampled", 1, from(0), false},
		{"wanted, though none is sampled", 0, from(trace.FlagsSampled), true},
		{"undecided, all", 1, context.Background(), true},
		{"undecided, none", 0, context.Background(), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			traces := tracesToNowhere(t, test.share)
			for range 100 {
				_, span := traces.tracer.Start(test.ctx, "request")
				if span.IsRecording() != test.want {
					t.Fatalf("recording is %v, expected %v", span.IsRecording(), test.want)
				}
				span.End()
			}
		})
	}
}

func TestTheShareIsThatOfRoots(t *testing.T) {
	t.Parallel()
	traces := tracesToNowhere(t, 0.25)
	n := 0
	for range 20_000 {
		ctx, span := traces.tracer.Start(context.Background(), "request")
		_, child := traces.tracer.Start(ctx, "child")
		if span.IsRecording() != child.IsRecording() && span.IsRecording() {
			t.Fatal("a child is not as its parent")
		}
		if span.IsRecording() {
			n++
		}
	}
	if n < 4500 || n > 5500 { // 8 standard deviations
		t.Errorf("%d of 20000 are sampled, expected a quarter", n)
	}
}

// A request that is not traced costs nothing.
func TestNoSpanNoAllocation(t *testing.T) {
	traces := tracesToNowhere(t, 0)
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() { _, span := traces.tracer.Start(ctx, "request"); span.End() }); n != 0 {
		t.Errorf("a span that does not begin costs %v allocations", n)
	}
}

func tracesToNowhere(t *testing.T, share float64) *traces {
	t.Helper()
	traces := traceTo(nowhere{}, share, about("test"), discard())
	t.Cleanup(func() { _ = traces.shutdown(context.Background()) })

	return traces
}
