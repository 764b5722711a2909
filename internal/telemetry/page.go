package telemetry

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
)

const (
	// scrapesAtOnce bounds the scrapes under way, scrapeTime how long a scraper may take to read its answer.
	scrapesAtOnce = 4
	scrapeTime    = 15 * time.Second
)

// translation makes Prometheus' names of OpenTelemetry's: letters, digits and underscores, with the unit and "total" behind them.
var translation = otlptranslator.UnderscoreEscapingWithSuffixes

// newPage returns the handler of /metrics.
func newPage(from prometheus.Gatherer, logger *slog.Logger) http.Handler {
	page := promhttp.HandlerFor(from, promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: scrapesAtOnce,
		ErrorHandling:       promhttp.ContinueOnError, // what can be told is told
		ErrorLog:            slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		OfferedCompressions: []promhttp.Compression{promhttp.Identity, promhttp.Gzip},
	})

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)

			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeTime)) // fails only where there are no deadlines
		w.Header().Set("Cache-Control", "no-store")
		page.ServeHTTP(w, r)
	})
}
