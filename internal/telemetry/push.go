package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
)

const (
	// pushInterval is the time between two pushes of metrics.
	pushInterval = time.Minute
	// deliveryLimit bounds one attempt to deliver spans or metrics, with its repetitions.
	deliveryLimit = 10 * time.Second
	// firstPause and longestPause bound the pause before a delivery is repeated that the collector was too busy for.
	firstPause   = time.Second
	longestPause = 5 * time.Second
)

// repetition is how every delivery is repeated that the collector was too busy for. Each of the four exporters has a type of its own for it, all of one form.
var repetition = otlpmetrichttp.RetryConfig{Enabled: true, InitialInterval: firstPause, MaxInterval: longestPause, MaxElapsedTime: deliveryLimit}

// newPush makes what pushes the metrics to their collector.
func newPush(c Config, known *collector) (*sdk.PeriodicReader, error) {
	var exporter sdk.Exporter
	var err error
	address := c.Metrics.OTLP
	if c.Traces.Protocol == ProtocolHTTP {
		options := []otlpmetrichttp.Option{
			otlpmetrichttp.WithEndpoint(address.Host), otlpmetrichttp.WithURLPath(address.Base + "/v1/metrics"),
			otlpmetrichttp.WithTimeout(deliveryLimit),
			otlpmetrichttp.WithRetry(repetition),
		}
		if !address.TLS {
			options = append(options, otlpmetrichttp.WithInsecure())
		}
		exporter, err = otlpmetrichttp.New(context.Background(), options...)
	} else {
		options := []otlpmetricgrpc.Option{
			otlpmetricgrpc.WithEndpoint(address.Host), otlpmetricgrpc.WithTimeout(deliveryLimit),
			otlpmetricgrpc.WithDialOption(grpc.WithDisableServiceConfig()),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig(repetition)),
		}
		if !address.TLS {
			options = append(options, otlpmetricgrpc.WithInsecure())
		}
		exporter, err = otlpmetricgrpc.New(context.Background(), options...)
	}
	if err != nil {
		return nil, fmt.Errorf("make the way to the collector %s: %w", address, err)
	}

	return sdk.NewPeriodicReader(watchedPush{exporter, known}, sdk.WithInterval(pushInterval), sdk.WithTimeout(deliveryLimit)), nil
}

// watchedPush tells the collector's file how each push ended.
type watchedPush struct {
	sdk.Exporter

	known *collector
}

// Export implements [sdk.Exporter].
func (w watchedPush) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	w.known.heard(w.Exporter.Export(ctx, data))

	return nil // it is counted, and nobody else needs to know
}
