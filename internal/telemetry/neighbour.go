package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	// neighbourLimit bounds the backend's own metrics, in bytes, and neighbourTime how long they may take: less than a scraper waits for ours.
	neighbourLimit = 8 << 20
	neighbourTime  = 3 * time.Second
)

// neighbour adds the backend's own metrics to a scrape. Whatever is wrong with them, a scrape has ours.
type neighbour struct {
	fetch    func(context.Context) (io.ReadCloser, error)
	failures *atomic.Uint64
	logger   *slog.Logger
}

// Gather implements [prometheus.Gatherer].
func (n *neighbour) Gather() ([]*dto.MetricFamily, error) {
	families, err := n.read()
	if err != nil {
		n.failures.Add(1)
		n.logger.Debug("the backend's metrics are left out of a scrape", "error", err)

		return nil, nil
	}

	return families, nil
}

func (n *neighbour) read() ([]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(context.Background(), neighbourTime)
	defer cancel()
	body, err := n.fetch(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch the backend's metrics: %w", err)
	}
	defer func() { _ = body.Close() }()
	limited := &io.LimitedReader{R: body, N: neighbourLimit + 1}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(limited)
	if limited.N <= 0 {
		err = errors.Join(err, fmt.Errorf("expected at most %d bytes", neighbourLimit))
	}
	if err != nil {
		return nil, fmt.Errorf("read the backend's metrics: %w", err)
	}
	families := make([]*dto.MetricFamily, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !strings.HasPrefix(name, "pilotlight_") { // a name of ours that means something else would spoil our own
			families = append(families, found[name])
		}
	}

	return families, nil
}
