package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
)

const (
	// FlushLimit bounds what is still sent at the end, all of it together.
	FlushLimit = 5 * time.Second
	// seriesLimit bounds the series of one metric, should a label take more values than it was meant to: the rest is counted together.
	seriesLimit = 1000
	// scope names who measures.
	scope = "github.com/pilotlight-proxy/pilotlight"
)

// Settings is what telemetry is made of.
type Settings struct {
	Config Config
	// Version is the program's.
	Version string
	// Backend returns the backend's own metrics, for [MetricsConfig.IncludeBackend]; what it returns is closed. May be nil.
	Backend func(context.Context) (io.ReadCloser, error)
	// Logger gets a line when a collector is lost and one when it is found again. Nil is silent.
	Logger *slog.Logger
}

// Telemetry is the ways by which metrics and traces leave. It never makes anybody wait: what cannot leave is dropped and counted.
type Telemetry struct {
	logger     *slog.Logger
	provider   *sdk.MeterProvider
	meter      metric.Meter
	traces     *traces // nil: off
	propagator propagation.TextMapPropagator
	page       http.Handler
	version    string
	// pushes is the collector of metrics as far as it is known.
	pushes         collector
	scrapeFailures atomic.Uint64
}

// New makes the ways out. Collectors need not be there, now or later. Call Shutdown in the end.
func New(settings Settings) (*Telemetry, error) {
	t := &Telemetry{logger: settings.Logger, version: settings.Version}
	if t.logger == nil {
		t.logger = slog.New(slog.DiscardHandler)
	}
	// Without it OpenTelemetry's packages write to the standard error stream by themselves, a line for each batch that is lost.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.logger.Debug("telemetry has a problem", "error", err) }))
	about := about(settings.Version)
	if err := t.openMetrics(settings, about); err != nil {
		return nil, err
	}
	if c := settings.Config.Traces; !c.OTLP.IsZero() {
		var err error
		t.propagator = newPropagator(c.Propagators)
		if t.traces, err = newTraces(c, about, t.logger); err != nil {
			return nil, errors.Join(err, t.Shutdown(context.Background()))
		}
	}

	return t, nil
}

// about says who it is that measures. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, which Kubernetes operators set, have the last word.
func about(version string) *resource.Resource {
	ours := resource.NewSchemaless(attribute.String("service.name", "pilotlight"), attribute.String("service.version", version))
	theirs, err := resource.New(context.Background(), resource.WithFromEnv())
	if err != nil {
		return ours // what could not be read is left out
	}
	merged, err := resource.Merge(ours, theirs)
	if err != nil {
		return ours
	}

	return merged
}

// Meter is what the proxy makes its instruments of. A name that is not in the catalogue measures nothing.
func (t *Telemetry) Meter() metric.Meter { return t.meter }

// Tracer is what begins spans of requests, and decides which. Nil while traces are off.
func (t *Telemetry) Tracer() trace.Tracer {
	if t.traces == nil {
		return nil
	}

	return t.traces.tracer
}

// Propagator reads and writes the headers of traces. Nil while traces are off.
func (t *Telemetry) Propagator() propagation.TextMapPropagator { return t.propagator }

// Page is /metrics: Prometheus' text format, or OpenMetrics with exemplars for who asks for it.
func (t *Telemetry) Page() http.Handler { return t.page }

// Shutdown sends what is left, to all collectors side by side, for [FlushLimit] at the most. What has not left by then is dropped and counted.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, FlushLimit)
	defer cancel()
	var leaving sync.WaitGroup
	var metrics, spans error
	leaving.Go(func() { metrics = t.provider.Shutdown(ctx) })
	leaving.Go(func() { spans = t.traces.shutdown(ctx) })
	leaving.Wait()

	return errors.Join(metrics, spans)
}

func (t *Telemetry) openMetrics(settings Settings, about *resource.Resource) error {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo(),
		exporter.WithTranslationStrategy(translation))
	if err != nil {
		return fmt.Errorf("make the page of metrics: %w", err)
	}
	options := []sdk.Option{
		sdk.WithReader(reader), sdk.WithResource(about), sdk.WithView(view), sdk.WithCardinalityLimit(seriesLimit),
		sdk.WithExemplarFilter(exemplar.TraceBasedFilter),
	}
	if c := settings.Config; !c.Metrics.OTLP.IsZero() {
		t.pushes.what, t.pushes.logger = "metrics", t.logger
		push, err := newPush(c, &t.pushes)
		if err != nil {
			return err
		}
		options = append(options, sdk.WithReader(push))
	}
	t.provider = sdk.NewMeterProvider(options...)
	t.meter = t.provider.Meter(scope)
	gatherers := prometheus.Gatherers{registry}
	if settings.Config.Metrics.IncludeBackend && settings.Backend != nil {
		gatherers = append(gatherers, &neighbour{fetch: settings.Backend, failures: &t.scrapeFailures, logger: t.logger})
	}
	t.page = newPage(gatherers, t.logger)

	return t.Observe(t.self)
}

// self tells what is known here.
func (t *Telemetry) self(o *Observer) {
	o.Set(BuildInfo, 1, t.version)
	o.Set(BackendScrapeFailures, float64(t.scrapeFailures.Load()))
	o.Set(MetricPushFailures, float64(t.pushes.failures.Load()))
	if t.traces != nil {
		spans := t.traces.ledger.now()
		o.Set(SpansSent, float64(spans.sent))
		o.Set(SpansDropped, float64(spans.full), "queue_full")
		o.Set(SpansDropped, float64(spans.lost), "export_failed")
	}
}
