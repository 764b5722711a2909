package telemetry

import (
	"context"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

// sampler decides which spans begin, before the SDK is asked: a span that nobody wants costs no allocation. Who came with a trace has decided already.
type sampler struct {
	embedded.Tracer

	next  trace.Tracer
	share float64
}

func newSampler(next trace.Tracer, share float64) *sampler {
	return &sampler{next: next, share: share}
}

// Start implements [trace.Tracer]. A span that does not begin is the one in ctx, if any, which then records nothing either.
func (s *sampler) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	present := trace.SpanFromContext(ctx)
	caller := present.SpanContext()
	if (caller.IsValid() && !caller.IsSampled()) || (!caller.IsValid() && rand.Float64() >= s.share) { //nolint:gosec // no secret
		return ctx, present
	}

	return s.next.Start(ctx, name, options...) //nolint:spancheck // who asked for it ends it
}
