package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
)

const (
	// queueSpans bounds the spans that wait for the collector; a span is about 2 KiB. batchSpans is how many leave at once, after batchPause at the latest.
	queueSpans = 2048
	batchSpans = 512
	batchPause = 5 * time.Second
)

// traces is the way by which spans leave. It stands on both sides of the SDK's batching queue: as the processor before it, which bounds what is in it, and as
// the exporter behind it. That is how it knows of each span whether it was sent, did not fit, or was lost, which the SDK itself does not tell.
type traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	queue    sdk.SpanProcessor
	exporter sdk.SpanExporter
	known    collector
	// ended is cancelled when there is no time left to deliver.
	ended context.Context //nolint:containedctx // deliveries are begun by the SDK, with a context that does not end when Shutdown's does
	end   context.CancelFunc

	ledger ledger
}

func newTraces(c TracesConfig, about *resource.Resource, logger *slog.Logger) (*traces, error) {
	exporter, err := newSpanExporter(c)
	if err != nil {
		return nil, fmt.Errorf("make the way to the collector %s: %w", c.OTLP, err)
	}

	return traceTo(exporter, c.Sample, about, logger), nil
}

// traceTo sends the spans of a share of the requests to exporter.
func traceTo(exporter sdk.SpanExporter, share float64, about *resource.Resource, logger *slog.Logger) *traces {
	t := &traces{exporter: exporter, known: collector{what: "traces", logger: logger}}
	t.ended, t.end = context.WithCancel(context.Background())
	t.queue = sdk.NewBatchSpanProcessor(delivery{t}, sdk.WithMaxQueueSize(queueSpans), sdk.WithMaxExportBatchSize(batchSpans),
		sdk.WithBatchTimeout(batchPause), sdk.WithExportTimeout(deliveryLimit))
	limits := sdk.NewSpanLimits()
	limits.AttributeCountLimit, limits.AttributeValueLengthLimit, limits.EventCountLimit, limits.LinkCountLimit = 64, 512, 64, 16
	t.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(admission{t}), sdk.WithResource(about),
		sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())), sdk.WithRawSpanLimits(limits))
	t.tracer = newSampler(t.provider.Tracer(scope), share)

	return t
}

func newSpanExporter(c TracesConfig) (sdk.SpanExporter, error) {
	address := c.OTLP
	if c.Protocol == ProtocolHTTP {
		options := []otlptracehttp.Option{
			otlptracehttp.WithEndpoint(address.Host), otlptracehttp.WithURLPath(address.Base + "/v1/traces"),
			otlptracehttp.WithTimeout(deliveryLimit),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig(repetition)),
		}
		if !address.TLS {
			options = append(options, otlptracehttp.WithInsecure())
		}

		return otlptrace.NewUnstarted(otlptracehttp.NewClient(options...)), nil
	}
	options := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpoint(address.Host), otlptracegrpc.WithTimeout(deliveryLimit),
		otlptracegrpc.WithDialOption(grpc.WithDisableServiceConfig()), // a collector's DNS need not answer a second question
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig(repetition)),
	}
	if !address.TLS {
		options = append(options, otlptracegrpc.WithInsecure())
	}

	return otlptracegrpc.New(context.Background(), options...)
}

// shutdown sends what is left until ctx ends. t may be nil.
func (t *traces) shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	defer t.end()
	defer context.AfterFunc(ctx, t.end)()
	err := t.provider.Shutdown(ctx)
	t.ledger.close()
	if err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}

	return nil
}

// admission is the processor before the queue.
type admission struct{ t *traces }

// OnStart implements [sdk.SpanProcessor].
func (admission) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements [sdk.SpanProcessor]. It never waits: a span that does not fit is dropped.
func (a admission) OnEnd(span sdk.ReadOnlySpan) {
	if a.t.ledger.admit() {
		a.t.queue.OnEnd(span)
	}
}

// ForceFlush implements [sdk.SpanProcessor].
func (a admission) ForceFlush(ctx context.Context) error { return a.t.queue.ForceFlush(ctx) }

// Shutdown implements [sdk.SpanProcessor].
func (a admission) Shutdown(ctx context.Context) error { return a.t.queue.Shutdown(ctx) }

// delivery is the exporter behind the queue.
type delivery struct{ t *traces }

// ExportSpans implements [sdk.SpanExporter].
func (d delivery) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.t.ended, cancel)() //nolint:contextcheck // the second context that can end it
	err := d.t.exporter.ExportSpans(ctx, spans)
	d.t.ledger.delivered(len(spans), err)
	d.t.known.heard(err)

	return nil // it is counted, and nobody else needs to know
}

// Shutdown implements [sdk.SpanExporter].
func (d delivery) Shutdown(ctx context.Context) error { return d.t.exporter.Shutdown(ctx) }
