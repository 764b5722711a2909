package telemetry

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestTheBackendsMetricsAreAddedAndNeverSpoilOurs(t *testing.T) {
	t.Parallel()
	const ours = "pilotlight_build_info"
	for _, test := range []struct {
		name, text string
		err        error
		want       string
		failed     bool
	}{
		{"good", "# TYPE vllm:requests gauge\nvllm:requests{m=\"a\"} 3\n", nil, "vllm:requests{m=\"a\"} 3\n", false},
		{"a name of ours", "pilotlight_build_info 7\nother 1\n", nil, "other 1\n", false},
		{"no metrics", "<html>", nil, "", true},
		{"not there", "", errors.New("connection refused"), "", true},
		{"too large", strings.Repeat("a 1\n", neighbourLimit/4+1), nil, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			told := open(t, Settings{
				Config:  Config{Metrics: MetricsConfig{IncludeBackend: true}},
				Version: "v1",
				Backend: func(context.Context) (io.ReadCloser, error) {
					return io.NopCloser(strings.NewReader(test.text)), test.err
				},
			})
			_ = scrape(t, told, plain)
			page := scrape(t, told, plain)
			if !strings.Contains(page, test.want) || !strings.Contains(page, ours+`{version="v1"} 1`) || strings.Contains(page, ours+" 7") {
				t.Errorf("the page lacks %q, or ours:\n%s", test.want, page)
			}
			if failed := told.scrapeFailures.Load() == 2; failed != test.failed {
				t.Errorf("%d failures are counted", told.scrapeFailures.Load())
			}
		})
	}
}
