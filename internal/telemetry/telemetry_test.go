package telemetry

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight-proxy/pilotlight/internal/memnet"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// open makes telemetry that is shut down in the end.
func open(t *testing.T, settings Settings) *Telemetry {
	t.Helper()
	told, err := New(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = told.Shutdown(context.Background()) })

	return told
}

// scrape returns the page in the format that accept asks for.
func scrape(t *testing.T, told *Telemetry, accept string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", accept)
	told.Page().ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		t.Fatalf("/metrics answers %d: %s", answer.Code, answer.Body)
	}

	return answer.Body.String()
}

const (
	plain       = "text/plain;version=0.0.4"
	openMetrics = "application/openmetrics-text;version=1.0.0"
)

// traced is a context with a sampled span from elsewhere.
func traced() context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0xab, 15: 1}, SpanID: trace.SpanID{7: 2}, TraceFlags: trace.FlagsSampled,
	}))
}

func histogram(t *testing.T, told *Telemetry, name string) metric.Float64Histogram {
	t.Helper()
	h, err := told.Meter().Float64Histogram(name, metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}

	return h
}

// bucketOf returns the first bucket of the page in which a metric's only measurement is.
func bucketOf(t *testing.T, page, name string) string {
	t.Helper()
	found := regexp.MustCompile(name + `_bucket\{(?:[^}]*,)?le="([^"]*)"\} 1\b`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("%s has no bucket with a measurement:\n%s", name, page)
	}

	return found[1]
}

// C77: what takes milliseconds and what takes minutes falls into finite buckets of its own, in seconds.
func TestC77BucketsTellTokensFromTimeouts(t *testing.T) {
	t.Parallel()
	for _, times := range [][]float64{{0.004, 45, 400}, {0.3, 40}, {0.0015, 0.003, 1, 10, 100, 1000}} {
		seen := map[string]float64{}
		for _, seconds := range times {
			told := open(t, Settings{})
			histogram(t, told, "http.server.request.duration").Record(t.Context(), seconds)
			histogram(t, told, "pilotlight.hold.duration").Record(t.Context(), 2)
			page := scrape(t, told, plain)
			le := bucketOf(t, page, "http_server_request_duration_seconds")
			if other, taken := seen[le]; taken || le == "+Inf" {
				t.Errorf("%v s and %v s are in the same bucket %s", seconds, other, le)
			}
			seen[le] = seconds
			if hold := bucketOf(t, page, "pilotlight_hold_duration_seconds"); hold != "2.048" {
				t.Errorf("a hold of 2 s is in the bucket %s, expected 2.048", hold)
			}
		}
	}
}

// C78: exemplars are in OpenMetrics, and the bounds of buckets read the same in both formats.
func TestC78BothFormatsAgreeAndOneHasExemplars(t *testing.T) {
	t.Parallel()
	told := open(t, Settings{})
	h := histogram(t, told, "http.server.request.duration")
	h.Record(traced(), 0.02, metric.WithAttributes(attribute.String("http.request.method", "GET")))
	h.Record(context.Background(), 2, metric.WithAttributes(attribute.String("http.request.method", "GET")))
	first, second := scrape(t, told, plain), scrape(t, told, openMetrics)
	if !strings.Contains(second, `trace_id="ab000000000000000000000000000001"`) || !strings.HasSuffix(second, "# EOF\n") {
		t.Errorf("OpenMetrics has no exemplar with the trace:\n%s", second)
	}
	if strings.Contains(first, "trace_id") {
		t.Errorf("the text format has exemplars, which it cannot have:\n%s", first)
	}
	les := func(page string) []string {
		var all []string
		for _, match := range regexp.MustCompile(`le="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			all = append(all, match[1])
		}

		return all
	}
	if a, b := les(first), les(second); !slices.Equal(a, b) || len(a) != len(bounds())+1 {
		t.Errorf("the bounds differ:\n%v\n%v", a, b)
	}
}

// What has no row in the catalogue never leaves.
func TestWhatIsNotInTheCatalogueIsNotTold(t *testing.T) {
	t.Parallel()
	told := open(t, Settings{Version: "v1"})
	stray, err := told.Meter().Int64Counter("pilotlight.stray")
	if err != nil {
		t.Fatal(err)
	}
	stray.Add(t.Context(), 1)
	page := scrape(t, told, plain)
	if strings.Contains(page, "stray") {
		t.Errorf("a stray metric is on the page:\n%s", page)
	}
	if !strings.Contains(page, `pilotlight_build_info{version="v1"} 1`) {
		t.Errorf("the page lacks its own row:\n%s", page)
	}
}

// C64, the backstop: should a label take any value there is, the series still have a bound.
func TestC64SeriesHaveABound(t *testing.T) {
	t.Parallel()
	told := open(t, Settings{})
	refusals, err := told.Meter().Int64Counter("pilotlight.refusals")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		refusals.Add(t.Context(), 1, metric.WithAttributes(attribute.Int("reason", i)))
	}
	page := scrape(t, told, plain)
	if n := strings.Count(page, "pilotlight_refusals_total{"); n > seriesLimit {
		t.Errorf("10000 values make %d series, expected at most %d", n, seriesLimit)
	}
	if !strings.Contains(page, `pilotlight_refusals_total{otel_metric_overflow="true"}`) {
		t.Error("what is beyond the bound is not counted")
	}
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.text.String()
}

// refusing returns an address at which nobody listens, silent one that accepts and never answers.
func refusing(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()

	return listener.Addr().String()
}

func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var all []net.Conn
		for {
			connection, err := listener.Accept()
			if err != nil {
				break
			}
			all = append(all, connection)
		}
		for _, connection := range all {
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-ended })

	return listener.Addr().String()
}

// C75: whatever is wrong with the collector, nobody waits for it, what is lost is counted, the log has one line, and the end takes 5 s at the most.
func TestC75ACollectorThatIsDownHoldsNobodyUp(t *testing.T) {
	for _, protocol := range ProtocolValues() {
		for name, address := range map[string]func(*testing.T) string{
			"refuses": refusing, "never answers": silent, "has no address": func(*testing.T) string { return "collector.invalid:4317" },
		} {
			t.Run(protocol.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				collector := units.Address{Network: "tcp", Host: address(t)}
				log := &logged{}
				told, err := New(Settings{
					Config: Config{Traces: TracesConfig{OTLP: collector, Protocol: protocol, Sample: 1}, Metrics: MetricsConfig{OTLP: collector}},
					Logger: slog.New(slog.NewTextHandler(log, nil)),
				})
				if err != nil {
					t.Fatal(err)
				}
				const spans = 2 * queueSpans
				var worst time.Duration
				for range spans {
					began := time.Now()
					_, span := told.Tracer().Start(context.Background(), "request")
					span.End()
					worst = max(worst, time.Since(began))
				}
				if worst > deliveryLimit/2 { // a queue that waits would wait for a delivery to fail
					t.Errorf("a request waited %s for its span", worst)
				}
				if n := told.traces.ledger.now().waiting; n > queueSpans {
					t.Errorf("%d spans wait, expected at most %d", n, queueSpans)
				}
				if name == "never answers" && told.traces.ledger.now().full == 0 { // the others may lose spans as fast as they come
					t.Error("no span was dropped: the check proves nothing")
				}
				began := time.Now()
				_ = told.Shutdown(context.Background())
				if took := time.Since(began); took > FlushLimit+2*time.Second {
					t.Errorf("the end took %s, expected at most %s", took, FlushLimit)
				}
				if all := told.traces.ledger.now(); all.sent != 0 || all.full+all.lost != spans {
					t.Errorf("of %d spans %+v, expected all of them lost", spans, all)
				}
				if lines := strings.Count(log.String(), "\n"); lines > 2 {
					t.Errorf("the log has %d lines, expected one for traces and one for metrics:\n%s", lines, log)
				}
			})
		}
	}
}

// The negative control of C75: a collector that is there gets every span, and the page says so.
func TestACollectorGetsEverySpan(t *testing.T) {
	t.Parallel()
	for _, protocol := range ProtocolValues() {
		t.Run(protocol.String(), func(t *testing.T) {
			t.Parallel()
			address, received := collecting(t, protocol)
			told := open(t, Settings{Config: Config{Traces: TracesConfig{OTLP: units.Address{Network: "tcp", Host: address}, Protocol: protocol, Sample: 1}}})
			for range 100 {
				_, span := told.Tracer().Start(context.Background(), "request")
				span.End()
			}
			if err := told.traces.provider.ForceFlush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if page := scrape(t, told, plain); !strings.Contains(page, "pilotlight_spans_sent_total 100\n") {
				t.Errorf("the page does not say that 100 spans were sent:\n%s", page)
			}
			if n := received(); n != 100 {
				t.Errorf("the collector got %d spans, expected 100", n)
			}
		})
	}
}

// collector counts the spans that it is sent.
type counter struct {
	collectortrace.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans int
}

// Export implements [collectortrace.TraceServiceServer].
func (c *counter) Export(_ context.Context, request *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans += len(scope.GetSpans())
		}
	}

	return &collectortrace.ExportTraceServiceResponse{}, nil
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.spans
}

// collecting starts a collector.
func collecting(t *testing.T, protocol Protocol) (address string, received func() int) {
	t.Helper()
	c := &counter{}
	if protocol == ProtocolHTTP {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			request := &collectortrace.ExportTraceServiceRequest{}
			if r.URL.Path != "/v1/traces" || proto.Unmarshal(body, request) != nil {
				http.Error(w, "no", http.StatusBadRequest)

				return
			}
			_, _ = c.Export(r.Context(), request)
			w.Header().Set("Content-Type", "application/x-protobuf")
		}))
		t.Cleanup(server.Close)

		return server.Listener.Addr().String(), c.count
	}
	listener, err := net.Listen("tcp", memnet.Loopback())
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	return listener.Addr().String(), c.count
}

// Without a collector of traces there is nothing that could begin one.
func TestTracesAreOffWithoutACollector(t *testing.T) {
	t.Parallel()
	told := open(t, Settings{Config: DefaultConfig()})
	if told.Tracer() != nil || told.Propagator() != nil {
		t.Errorf("without a collector there is a tracer %v and a propagator %v", told.Tracer(), told.Propagator())
	}
}
