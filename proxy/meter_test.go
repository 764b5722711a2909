package proxy

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

// measured is a meter and what reads it.
func measured(tb testing.TB) (*meter, *sdk.ManualReader) {
	tb.Helper()
	reader := sdk.NewManualReader()
	m, err := newMeter(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test"))
	if err != nil {
		tb.Fatal(err)
	}

	return m, reader
}

// points maps each metric to the attribute sets that were recorded.
func points(tb testing.TB, reader *sdk.ManualReader) map[string][]attribute.Set {
	tb.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		tb.Fatal(err)
	}
	found := map[string][]attribute.Set{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					found[m.Name] = append(found[m.Name], point.Attributes)
				}
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					found[m.Name] = append(found[m.Name], point.Attributes)
				}
			default:
				tb.Fatalf("%s is a %T", m.Name, m.Data)
			}
		}
	}

	return found
}

func (m *meter) everything(ctx context.Context) {
	for _, why := range causeValues() {
		for _, verdict := range circuit.VerdictValues() {
			m.attempted(ctx, verdict, why)
		}
		for _, grpc := range []bool{false, true} {
			m.ended(ctx, &ending{
				method: "POST", major: 2, grpc: grpc, status: 200, grpcStatus: "14", cause: why,
				took: time.Second, firstByte: time.Second, held: time.Second, received: 1, sent: 1,
			})
		}
	}
	for _, reason := range ReasonValues() {
		m.refused(ctx, reason)
	}
	for _, outcome := range OutcomeValues() {
		m.ended(ctx, &ending{method: "POST", major: 1, minor: 1, status: 503, cause: because(HoldTimeout), held: time.Second, outcome: outcome})
	}
}

// The page of metrics is the contract: what is recorded here has its row there, with these labels and no other.
func TestWhatIsRecordedIsInTheCatalogue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	m, reader := measured(t)
	m.everything(t.Context())
	found := points(t, reader)
	if len(found) != 7 {
		t.Errorf("%d metrics are recorded, expected 7", len(found))
	}
	for name, sets := range found {
		row := regexp.MustCompile("(?m)^\\| `[^`]+` \\| `" + regexp.QuoteMeta(name) + "` \\|[^|]*\\|[^|]*\\|([^|]*)\\|").FindStringSubmatch(string(page))
		if row == nil {
			t.Errorf("%s is not in docs/metrics.md", name)

			continue
		}
		var used []string
		for _, set := range sets {
			for _, kv := range set.ToSlice() {
				used = append(used, strings.ReplaceAll(string(kv.Key), ".", "_"))
			}
		}
		slices.Sort(used)
		used = slices.Compact(used)
		written := strings.Fields(strings.ReplaceAll(row[1], "`", " "))
		slices.Sort(written)
		if !slices.Equal(used, written) {
			t.Errorf("%s is recorded with the labels %v, docs/metrics.md has %v", name, used, written)
		}
	}
}

// C64: whatever clients send, the number of series stays. What a caller can make up reaches the meter as the method only; Host, path, agent and model do not reach it at all.
func TestC64NoClientMakesSeries(t *testing.T) {
	t.Parallel()
	m, reader := measured(t)
	for i := range 10_000 {
		m.ended(t.Context(), &ending{
			method: fmt.Sprintf("M%d", i), major: 1, minor: 1, status: http.StatusNotFound, took: time.Millisecond, firstByte: time.Millisecond, held: 1, sent: 1,
		})
		m.ended(t.Context(), &ending{method: http.MethodPost, major: 2, grpc: true, grpcStatus: "5", took: time.Millisecond})
		m.attempted(t.Context(), circuit.Good, answered)
	}
	const perHistogram = 24 // 22 buckets, sum and count
	series := 0
	for name, sets := range points(t, reader) {
		if strings.HasSuffix(name, "duration") || strings.HasSuffix(name, "first_byte") {
			series += perHistogram * len(sets)
		} else {
			series += len(sets)
		}
		for _, set := range sets {
			if method, ok := set.Value("http.request.method"); ok && method.AsString() != "_OTHER" {
				t.Errorf("%s has the method %s", name, method.AsString())
			}
		}
		if len(sets) != 1 && name != "pilotlight.body.io" {
			t.Errorf("%s has %d sets of labels, expected one", name, len(sets))
		}
	}
	if series >= 200 {
		t.Errorf("there are %d series, expected less than 200", series)
	}
}

// A backend that answers with every status there is cannot make series without end either.
func TestC64NoBackendMakesSeriesWithoutEnd(t *testing.T) {
	t.Parallel()
	m, reader := measured(t)
	for status := 200; status < 1000; status++ {
		for _, method := range methods {
			m.ended(t.Context(), &ending{method: method, major: 1, minor: 1, status: status})
		}
	}
	if sets := points(t, reader)["http.server.request.duration"]; len(sets) != maxLabels+1 {
		t.Errorf("there are %d sets of labels, expected %d and one for the rest", len(sets), maxLabels)
	}
}

func TestErrorTypes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		e    ending
		want string
	}{
		{"an answer", ending{status: 200}, ""},
		{"the client's fault", ending{status: 404}, ""},
		{"the backend's", ending{status: 502, cause: serverError}, "502"},
		{"busy", ending{status: 503, cause: busy}, "503"},
		{"a refusal", ending{status: 503, cause: because(HoldFull)}, "hold_full"},
		{"a break", ending{status: 200, cause: streamBroken}, "stream_broken"},
		{"nobody there", ending{cause: clientLeft}, "client_left"},
		{"gRPC", ending{grpc: true, status: 200, grpcStatus: "0"}, ""},
		{"gRPC, the client's fault", ending{grpc: true, status: 200, grpcStatus: "5"}, ""},
		{"gRPC, the backend's", ending{grpc: true, status: 200, grpcStatus: "14", cause: serverError}, "UNAVAILABLE"},
		{"gRPC, no code", ending{grpc: true, status: 200, grpcStatus: "nonsense"}, "UNKNOWN"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m, reader := measured(t)
			test.e.method, test.e.major, test.e.minor = "GET", 1, 1
			m.ended(t.Context(), &test.e)
			name := "http.server.request.duration"
			if test.e.grpc {
				name = "rpc.server.call.duration"
			}
			set := points(t, reader)[name][0]
			if got, _ := set.Value("error.type"); got.AsString() != test.want {
				t.Errorf("error.type is %q, expected %q", got.AsString(), test.want)
			}
		})
	}
}

func TestCausesSpeakTheirWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, why := range causeValues() {
		if word := why.String(); word == "" || seen[word] || strings.Contains(word, "(") {
			t.Errorf("cause %d has the word %q", int(why), word)
		}
		seen[why.String()] = true
	}
	if because(HoldFull).String() != "hold_full" || cause(777).String() != "cause(777)" {
		t.Errorf("got %v and %v", because(HoldFull), cause(777))
	}
}

// typical is a request as most are.
var typical = ending{method: "POST", major: 1, minor: 1, status: 200, took: 3 * time.Millisecond, firstByte: 2 * time.Millisecond, received: 100, sent: 1000}

func (m *meter) typical(ctx context.Context) {
	m.attempted(ctx, circuit.Good, answered)
	m.ended(ctx, &typical)
}

// A request is recorded in four metrics without an allocation.
func TestRecordingAllocatesNothing(t *testing.T) {
	m, _ := measured(t)
	ctx := context.Background()
	m.typical(ctx)
	if n := testing.AllocsPerRun(1000, func() { m.typical(ctx) }); n != 0 {
		t.Errorf("recording a request costs %v allocations", n)
	}
	var none *meter
	none.typical(ctx)
	none.refused(ctx, HoldFull)
	silent, err := newMeter(noop.NewMeterProvider().Meter(""))
	if err != nil {
		t.Fatal(err)
	}
	silent.everything(ctx)
}

func BenchmarkMeter(b *testing.B) {
	m, _ := measured(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		m.typical(ctx)
	}
}
