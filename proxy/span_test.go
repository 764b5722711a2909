package proxy

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

const (
	traceID   = "0af7651916cd43dd8448eb211c80319c"
	callerID  = "b7ad6b7169203331"
	sampled   = "00-" + traceID + "-" + callerID + "-01"
	unsampled = "00-" + traceID + "-" + callerID + "-00"
)

// recordedTracing samples all roots, or none, and keeps every span that has ended.
func recordedTracing(t *testing.T, roots bool) (*tracing, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	root := sdk.NeverSample()
	if roots {
		root = sdk.AlwaysSample()
	}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans), sdk.WithSampler(sdk.ParentBased(root)))
	headers := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, b3.New(b3.WithInjectEncoding(b3.B3SingleHeader|b3.B3MultipleHeader)))

	return newTracing(provider.Tracer("test"), headers, units.Address{Network: "tcp", Host: "localhost:8000"}), spans
}

func requestWith(headers http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v2/models/m/infer?secret=1", nil)
	r.Host = "made.up.example"
	maps.Copy(r.Header, headers)

	return r
}

// pass lets a request pass as the exchange does, and returns the headers that the backend gets.
func pass(t *tracing, r *http.Request) http.Header {
	out := r.Header.Clone()
	span := t.start(r, isGRPC(r))
	now := time.Now()
	span.held(now.Add(-time.Second), now, Proceed)
	span.asked(now, now, true)
	span.forward(0)
	fields := span.inject(nil, r.Header)
	for _, field := range fields {
		delete(out, field.Name)
	}
	for _, field := range fields {
		if field.Value != "" {
			out.Add(field.Name, field.Value)
		}
	}
	span.head(http.StatusOK)
	span.firstByte()
	span.lastByte()
	span.forwarded(circuit.Good, answered)
	span.end(&ending{status: http.StatusOK})

	return out
}

func TestARequestHasItsSpans(t *testing.T) {
	t.Parallel()
	tracing, spans := recordedTracing(t, false)
	out := pass(tracing, requestWith(http.Header{"Traceparent": {sampled}, "Tracestate": {"v=1 ", "w=2"}, "Baggage": {"a = b"}}))
	var names []string
	byName := map[string]sdk.ReadOnlySpan{}
	for _, span := range spans.Ended() {
		names = append(names, span.Name())
		byName[span.Name()] = span
		if id := span.SpanContext().TraceID().String(); id != traceID {
			t.Errorf("%s is in the trace %s", span.Name(), id)
		}
		for _, kv := range span.Attributes() {
			if text := kv.Value.String(); strings.Contains(text, "secret") || strings.Contains(text, "made.up") {
				t.Errorf("%s tells %s=%s", span.Name(), kv.Key, text)
			}
		}
	}
	if want := []string{"hold", "breaker", "backend", "POST"}; !slices.Equal(names, want) {
		t.Fatalf("the spans are %v, expected %v", names, want)
	}
	server, backend := byName["POST"], byName["backend"]
	if server.Parent().SpanID().String() != callerID || !server.Parent().IsRemote() || server.SpanKind() != trace.SpanKindServer {
		t.Errorf("the request's span has the parent %s and the kind %s", server.Parent().SpanID(), server.SpanKind())
	}
	for _, name := range names[:3] {
		if byName[name].Parent().SpanID() != server.SpanContext().SpanID() {
			t.Errorf("%s is no child of the request's span", name)
		}
	}
	if took := byName["hold"].EndTime().Sub(byName["hold"].StartTime()); took != time.Second {
		t.Errorf("the hold took %s, expected 1s", took)
	}
	if backend.SpanKind() != trace.SpanKindClient || len(backend.Events()) != 2 || len(server.Events()) != 2 {
		t.Errorf("the backend's span is a %s with the events %v", backend.SpanKind(), backend.Events())
	}
	if !slices.Contains(backend.Attributes(), attribute.Int("server.port", 8000)) {
		t.Errorf("the backend's span has the attributes %v", backend.Attributes())
	}
	parent := "00-" + traceID + "-" + backend.SpanContext().SpanID().String() + "-01"
	if got := out.Get("Traceparent"); got != parent {
		t.Errorf("the backend gets %s, expected %s", got, parent)
	}
	if !slices.Equal(out["Tracestate"], []string{"v=1 ", "w=2"}) || !slices.Equal(out["Baggage"], []string{"a = b"}) {
		t.Errorf("what is the caller's has changed: %v", out)
	}
}

// Who is not traced has every header reach the backend as it came, and no span.
func TestHeadersOfWhoIsNotTracedStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string]http.Header{
		"nothing":             {},
		"declined":            {"Traceparent": {unsampled}, "Tracestate": {"a=1"}, "Baggage": {"k=v"}},
		"declined with flags": {"Traceparent": {unsampled[:len(unsampled)-1] + "2"}},
		"b3 declined":         {"B3": {"0"}},
		"b3 ids declined":     {"B3": {traceID + "-" + callerID + "-0"}},
		"b3 multi declined":   {"X-B3-Traceid": {traceID}, "X-B3-Spanid": {callerID}, "X-B3-Sampled": {"0"}},
		"b3 sampled 0":        {"X-B3-Sampled": {"0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, roots := range []bool{false, true} {
				if roots && len(headers) == 0 {
					continue // that one begins a trace
				}
				tracing, spans := recordedTracing(t, roots)
				out := pass(tracing, requestWith(headers))
				if diff := cmp.Diff(headers, out); diff != "" || len(spans.Ended()) != 0 {
					t.Errorf("%d spans, and the headers changed:\n%s", len(spans.Ended()), diff)
				}
			}
			if diff := cmp.Diff(headers, pass(nil, requestWith(headers))); diff != "" {
				t.Errorf("with tracing off the headers changed:\n%s", diff)
			}
		})
	}
}

// A trace that cannot be read is none: another begins, to which what came does not belong.
func TestABrokenTraceBeginsAnew(t *testing.T) {
	t.Parallel()
	tracing, spans := recordedTracing(t, true)
	out := pass(tracing, requestWith(http.Header{"Traceparent": {"garbage"}, "Tracestate": {"v=1"}}))
	if len(spans.Ended()) != 4 || out.Get("Traceparent") == "garbage" || out["Tracestate"] != nil {
		t.Errorf("%d spans, headers %v", len(spans.Ended()), out)
	}
}

func TestB3GoesOn(t *testing.T) {
	t.Parallel()
	tracing, spans := recordedTracing(t, false)
	out := pass(tracing, requestWith(http.Header{
		"X-B3-Traceid": {traceID}, "X-B3-Spanid": {callerID}, "X-B3-Parentspanid": {"00f067aa0ba902b7"}, "X-B3-Sampled": {"1"},
	}))
	ended := spans.Ended()
	if len(ended) != 4 {
		t.Fatalf("there are %d spans", len(ended))
	}
	if backend := ended[2].SpanContext().SpanID().String(); out.Get("X-B3-Spanid") != backend || out["X-B3-Parentspanid"] != nil {
		t.Errorf("the backend's span is %s, its headers are %v", backend, out)
	}
}

// An exchange that ends in a panic leaves no span open.
func TestAnOpenAttemptEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	tracing, spans := recordedTracing(t, true)
	span := tracing.start(requestWith(nil), false)
	if !trace.SpanContextFromContext(span.context()).IsSampled() {
		t.Error("metrics would not find the trace")
	}
	span.forward(1)
	span.end(&ending{cause: clientLeft})
	span.end(&ending{})
	if n := len(spans.Ended()); n != 2 {
		t.Errorf("%d spans have ended, expected 2", n)
	}
}

func TestTracingCostsNothingWhereNothingIsTraced(t *testing.T) {
	on, _ := recordedTracing(t, true)
	declinedRequest, out := requestWith(http.Header{"Traceparent": {unsampled}}), http.Header{}
	for name, tracing := range map[string]*tracing{"off": nil, "declined": on} {
		if n := testing.AllocsPerRun(1000, func() {
			span := tracing.start(declinedRequest, false)
			span.held(time.Time{}, time.Time{}, Proceed)
			span.asked(time.Time{}, time.Time{}, true)
			span.forward(0)
			_ = span.inject(nil, out)
			span.firstByte()
			span.forwarded(circuit.Good, answered)
			span.end(&typical)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
