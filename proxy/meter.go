package proxy

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

// meter records users' requests. Attribute sets are made once and kept, so that recording allocates nothing. Nil records nothing. All methods may be called concurrently.
//
// The names and units are those of the catalogue in docs/metrics.md, from where descriptions and buckets come.
type meter struct {
	httpDuration, rpcDuration, firstByte, holdDuration metric.Float64Histogram
	exchanges, refusals                                metric.Int64Counter

	requests, calls, attempts labels
	refusedBy                 []label // by Reason
	held                      []label // by Outcome
	firstBytes                [2]label
	received, sent            atomic.Int64 // bytes: nobody needs to know of which request
}

// newMeter makes the instruments. A nil Meter makes a nil meter.
func newMeter(from metric.Meter) (*meter, error) {
	if from == nil {
		return nil, nil //nolint:nilnil // a nil meter records nothing
	}
	m := &meter{}
	for _, histogram := range []struct {
		name string
		to   *metric.Float64Histogram
	}{
		{"http.server.request.duration", &m.httpDuration},
		{"rpc.server.call.duration", &m.rpcDuration},
		{"pilotlight.time_to_first_byte", &m.firstByte},
		{"pilotlight.hold.duration", &m.holdDuration},
	} {
		var err error
		if *histogram.to, err = from.Float64Histogram(histogram.name, metric.WithUnit("s")); err != nil {
			return nil, err
		}
	}
	for _, counter := range []struct {
		name, unit string
		to         *metric.Int64Counter
	}{
		{"pilotlight.exchanges", "{exchange}", &m.exchanges},
		{"pilotlight.refusals", "{request}", &m.refusals},
	} {
		var err error
		if *counter.to, err = from.Int64Counter(counter.name, metric.WithUnit(counter.unit)); err != nil {
			return nil, err
		}
	}
	m.requests.make, m.calls.make, m.attempts.make = requestLabels, callLabels, attemptLabels
	for _, reason := range ReasonValues() {
		m.refusedBy = append(m.refusedBy, labelled(attribute.String("reason", reason.String())))
	}
	for _, outcome := range OutcomeValues() {
		m.held = append(m.held, labelled(attribute.String("outcome", outcome.String())))
	}
	m.firstBytes = [2]label{labelled(attribute.String("protocol", "http")), labelled(attribute.String("protocol", "grpc"))}
	received, sent := metric.WithAttributes(attribute.String("direction", "received")), metric.WithAttributes(attribute.String("direction", "sent"))
	_, err := from.Int64ObservableCounter("pilotlight.body.io", metric.WithUnit("By"), metric.WithInt64Callback(func(_ context.Context, to metric.Int64Observer) error {
		to.Observe(m.received.Load(), received)
		to.Observe(m.sent.Load(), sent)

		return nil
	}))
	if err != nil {
		return nil, err
	}

	return m, nil
}

// refused counts an answer by us instead of the backend.
func (m *meter) refused(ctx context.Context, reason Reason) {
	if m != nil {
		m.refusals.Add(ctx, 1, m.refusedBy[reason].add...)
	}
}

// attempted counts an exchange with the backend, whose verdict is the last one: a break takes the place of a good start.
func (m *meter) attempted(ctx context.Context, verdict circuit.Verdict, why cause) {
	if m != nil {
		m.exchanges.Add(ctx, 1, m.attempts.get(uint32(verdict)|uint32(why)<<4).add...) //nolint:gosec // enums
	}
}

// ended records a user's request that is over. Ctx carries its span, if it has one, which becomes the exemplar.
func (m *meter) ended(ctx context.Context, e *ending) {
	if m == nil {
		return
	}
	protocol := 0
	if e.grpc {
		protocol = 1
		m.rpcDuration.Record(ctx, e.took.Seconds(), m.calls.get(callKey(e)).record...)
	} else {
		m.httpDuration.Record(ctx, e.took.Seconds(), m.requests.get(requestKey(e)).record...)
	}
	if e.firstByte > 0 {
		m.firstByte.Record(ctx, e.firstByte.Seconds(), m.firstBytes[protocol].record...)
	}
	if e.held > 0 || e.outcome != Proceed {
		m.holdDuration.Record(ctx, e.held.Seconds(), m.held[e.outcome].record...)
	}
	m.received.Add(e.received)
	m.sent.Add(e.sent)
}

// requestKey packs what the labels of an HTTP request depend on: 4 bits of method, 2 of version, 6 of cause, 10 of status.
func requestKey(e *ending) uint32 {
	return uint32(methodIndex(e.method)) | uint32(versionIndex(e.major, e.minor))<<4 | uint32(e.failure())<<8 | uint32(e.status&0x3ff)<<16 //nolint:gosec // small numbers
}

func requestLabels(key uint32) label {
	status, why := int(key>>16), cause(key>>8&0xff)
	attributes := []attribute.KeyValue{
		semconv.HTTPRequestMethodKey.String(methods[key&0xf]),
		semconv.NetworkProtocolVersionKey.String(versions[key>>4&0x3]),
		semconv.URLSchemeKey.String("http"),
	}
	if status != 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCodeKey.Int(status))
	}
	if text := errorType(false, status, noCode, why); text != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(text))
	}

	return labelled(attributes...)
}

// callKey packs what the labels of a gRPC call depend on.
func callKey(e *ending) uint32 {
	return uint32(codeIndex(e.grpcStatus)) | uint32(e.failure())<<8 //nolint:gosec // small numbers
}

func callLabels(key uint32) label {
	code, why := int(key&0xff), cause(key>>8)
	attributes := []attribute.KeyValue{semconv.RPCSystemNameKey.String("grpc")}
	if code < noCode {
		attributes = append(attributes, semconv.RPCResponseStatusCodeKey.String(grpcCodes[code]))
	}
	if text := errorType(true, 0, code, why); text != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(text))
	}

	return labelled(attributes...)
}

func attemptLabels(key uint32) label {
	return labelled(attribute.String("verdict", circuit.Verdict(key&0xf).String()), attribute.String("reason", cause(key>>4).String()))
}
