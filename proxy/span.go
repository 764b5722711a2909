package proxy

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy/upstream"
)

// tracing begins the spans of requests. Nil begins none, and touches no header.
type tracing struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	fields     []string // the headers by which a trace may come, in canonical form
	w3c, b3    bool
	backend    []attribute.KeyValue // where the backend is
}

// newTracing returns nil without a tracer.
func newTracing(tracer trace.Tracer, propagator propagation.TextMapPropagator, backend units.Address) *tracing {
	if tracer == nil {
		return nil
	}
	if propagator == nil {
		propagator = propagation.NewCompositeTextMapPropagator()
	}
	t := &tracing{tracer: tracer, propagator: propagator}
	for _, field := range propagator.Fields() {
		t.fields = append(t.fields, http.CanonicalHeaderKey(field))
	}
	if t.w3c, t.b3 = slices.Contains(t.fields, traceparent), slices.Contains(t.fields, b3Sampled); t.b3 {
		t.fields = append(t.fields, b3Parent)
	}
	if backend.Network == "unix" {
		t.backend = []attribute.KeyValue{semconv.ServerAddress(backend.Host), semconv.NetworkTransportUnix}
	} else if host, port, err := net.SplitHostPort(backend.Host); err == nil {
		number, _ := strconv.Atoi(port)
		t.backend = []attribute.KeyValue{semconv.ServerAddress(host), semconv.ServerPort(number)}
	}

	return t
}

// Options of spans, made once: a call that makes them allocates, whether its span begins or not.
var (
	serverSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	clientKind = trace.WithSpanKind(trace.SpanKindClient)
)

// requestSpan is the span of one request and those below it. The zero requestSpan is that of a request that is not traced, and costs nothing.
// It belongs to the goroutine of the request's handler.
type requestSpan struct {
	t         *tracing
	ctx       context.Context //nolint:containedctx // it is how OpenTelemetry hands spans on
	span      trace.Span
	restarted bool // no trace came that could go on
	grpc      bool

	attemptCtx context.Context //nolint:containedctx // as above
	attempt    trace.Span      // with the backend, under way
}

// start begins the span of a request that has just arrived, if it is to be traced: a caller that came with a trace has decided, and the tracer decides for the others.
func (t *tracing) start(r *http.Request, grpc bool) requestSpan {
	if t == nil {
		return requestSpan{}
	}
	ctx := context.Background() // a span that begins in the request's own would look for values in it, and finds none
	if slices.ContainsFunc(t.fields, func(field string) bool { return r.Header[field] != nil }) {
		if declined(r.Header, t.w3c, t.b3) {
			return requestSpan{}
		}
		ctx = t.propagator.Extract(ctx, traceHeaders{Header: r.Header})
	}
	came := trace.SpanContextFromContext(ctx).IsValid()
	ctx, span := t.tracer.Start(ctx, spanName(r, grpc), serverSpan...)
	if !span.IsRecording() {
		return requestSpan{}
	}
	span.SetAttributes(
		semconv.HTTPRequestMethodKey.String(methods[methodIndex(r.Method)]),
		semconv.NetworkProtocolVersionKey.String(versions[versionIndex(r.ProtoMajor, r.ProtoMinor)]),
		semconv.URLSchemeKey.String("http"),
		semconv.URLPathKey.String(r.URL.Path),
	)
	if grpc {
		span.SetAttributes(semconv.RPCSystemNameKey.String("grpc"), semconv.RPCMethodKey.String(strings.TrimPrefix(r.URL.Path, "/")))
	}

	return requestSpan{t: t, ctx: ctx, span: span, restarted: !came, grpc: grpc}
}

// spanName is the method: nobody but the backend knows which paths are routes, and names are to be few. A path of gRPC is one.
func spanName(r *http.Request, grpc bool) string {
	if grpc {
		return strings.TrimPrefix(r.URL.Path, "/")
	}
	if name := methods[methodIndex(r.Method)]; name != "_OTHER" {
		return name
	}

	return "HTTP"
}

// context is what metrics are recorded with, so that they find the trace of the request.
func (s *requestSpan) context() context.Context {
	if s.span == nil {
		return context.Background()
	}

	return s.ctx
}

// recording says whether the request is traced.
func (s *requestSpan) recording() bool { return s.span != nil }

// now is the time, as far as anybody will ask for it.
func (s *requestSpan) now() time.Time {
	if s.span == nil {
		return time.Time{}
	}

	return time.Now()
}

// held adds the span of a hold that is over.
func (s *requestSpan) held(began, ended time.Time, outcome Outcome) {
	if s.span != nil {
		s.past("hold", began, ended, attribute.String("pilotlight.hold.outcome", outcome.String()))
	}
}

// asked adds the span of the question whether the breaker lets the request through.
func (s *requestSpan) asked(began, ended time.Time, allowed bool) {
	if s.span != nil {
		s.past("breaker", began, ended, attribute.Bool("pilotlight.breaker.allowed", allowed))
	}
}

// past adds a span that is over.
func (s *requestSpan) past(name string, began, ended time.Time, attributes ...attribute.KeyValue) {
	_, span := s.t.tracer.Start(s.ctx, name, trace.WithTimestamp(began), trace.WithAttributes(attributes...))
	span.End(trace.WithTimestamp(ended))
}

// forward begins the span of an attempt with the backend, the first of which has the number 0.
func (s *requestSpan) forward(number int) {
	if s.span == nil {
		return
	}
	s.attemptCtx, s.attempt = s.t.tracer.Start(s.ctx, "backend", clientKind, trace.WithAttributes(s.t.backend...)) //nolint:spancheck // forwarded ends it, or end
	if number > 0 {
		s.attempt.SetAttributes(semconv.HTTPRequestResendCount(number))
	}
}

// inject adds the fields that make the attempt the parent of what the backend does, in place of those that came in. Those of a request that is not traced stay as they are.
func (s *requestSpan) inject(fields []upstream.Field, in http.Header) []upstream.Field {
	if s.attempt == nil {
		return fields
	}
	out := http.Header{}
	for _, name := range s.t.fields {
		if values, ok := in[name]; ok {
			out[name] = values
		}
	}
	s.t.propagator.Inject(s.attemptCtx, traceHeaders{Header: out, restarted: s.restarted})
	for _, name := range s.t.fields {
		switch values := out[name]; {
		case slices.Equal(values, in[name]):
		case len(values) == 0:
			fields = append(fields, upstream.Field{Name: name})
		default:
			for _, value := range values {
				fields = append(fields, upstream.Field{Name: name, Value: value})
			}
		}
	}

	return fields
}

// head takes the status of the backend's answer.
func (s *requestSpan) head(status int) {
	if s.attempt != nil {
		s.attempt.SetAttributes(semconv.HTTPResponseStatusCode(status))
	}
}

// firstByte and lastByte say when the answer's body began and when it was through.
func (s *requestSpan) firstByte() { s.event("first byte") }

func (s *requestSpan) lastByte() { s.event("last byte") }

func (s *requestSpan) event(name string) {
	if s.attempt != nil {
		s.attempt.AddEvent(name)
		s.span.AddEvent(name)
	}
}

// forwarded ends the span of the attempt.
func (s *requestSpan) forwarded(verdict circuit.Verdict, why cause) {
	if s.attempt == nil {
		return
	}
	s.attempt.SetAttributes(attribute.String("pilotlight.verdict", verdict.String()))
	if verdict == circuit.Bad {
		s.attempt.SetAttributes(semconv.ErrorTypeKey.String(why.String()))
		s.attempt.SetStatus(otelcodes.Error, "")
	}
	s.attempt.End()
	s.attemptCtx, s.attempt = nil, nil
}

// end ends the span of the request, and that of an attempt that a panic has left open.
func (s *requestSpan) end(e *ending) {
	if s.span == nil {
		return
	}
	s.forwarded(circuit.None, e.cause)
	code := codeIndex(e.grpcStatus)
	switch {
	case s.grpc && code < noCode:
		s.span.SetAttributes(semconv.RPCResponseStatusCodeKey.String(grpcCodes[code]))
	case e.status != 0:
		s.span.SetAttributes(semconv.HTTPResponseStatusCode(e.status))
	}
	if e.cause >= ownCauses {
		s.span.SetAttributes(attribute.String("pilotlight.reason", e.cause.String()))
	}
	if text := errorType(s.grpc, e.status, code, e.cause); text != "" {
		s.span.SetAttributes(semconv.ErrorTypeKey.String(text))
		if e.cause == streamBroken || e.status >= http.StatusInternalServerError || (s.grpc && code < noCode && blamesServer(code)) {
			s.span.SetStatus(otelcodes.Error, "") // by the conventions, what the client did is no error of a server's span
		}
	}
	s.span.End()
	*s = requestSpan{}
}
