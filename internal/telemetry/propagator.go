package telemetry

import (
	"context"

	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel/propagation"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Propagator is a family of headers by which a trace comes in and goes on.
type Propagator int

const (
	// TraceContext is W3C's traceparent and tracestate.
	TraceContext Propagator = iota
	// Baggage is W3C's baggage. Nothing of ours reads or writes it: like any header it reaches the backend as it came, whether it is listed or not.
	Baggage
	// B3 is Zipkin's, in one header or in several: it is read in both forms and goes on in the form in which it came, in one header when it did not come.
	B3
	// B3Multi is the same, in several headers when it did not come.
	B3Multi
)

var propagatorNames = units.Names[Propagator]{
	TraceContext: "tracecontext",
	Baggage:      "baggage",
	B3:           "b3",
	B3Multi:      "b3multi",
}

// PropagatorValues lists every value, in order.
func PropagatorValues() []Propagator { return propagatorNames.Values() }

// String returns the word used in the configuration.
func (p Propagator) String() string { return propagatorNames.Of(p) }

// MarshalText implements [encoding.TextMarshaler].
func (p Propagator) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Propagator) UnmarshalText(text []byte) error {
	return propagatorNames.Parse("propagator", text, p)
}

// newPropagator puts together those that are listed.
func newPropagator(listed []Propagator) propagation.TextMapPropagator {
	var all []propagation.TextMapPropagator
	for _, one := range listed {
		switch one {
		case TraceContext:
			all = append(all, propagation.TraceContext{})
		case B3:
			all = append(all, sameForm{b3.New(b3.WithInjectEncoding(b3.B3SingleHeader)), b3.B3SingleHeader})
		case B3Multi:
			all = append(all, sameForm{b3.New(b3.WithInjectEncoding(b3.B3MultipleHeader)), b3.B3MultipleHeader})
		case Baggage:
		}
	}

	return propagation.NewCompositeTextMapPropagator(all...)
}

// sameForm writes B3 in the forms in which the carrier has it already: two forms of which only one is rewritten would name two parents.
type sameForm struct {
	propagation.TextMapPropagator

	otherwise b3.Encoding
}

// Inject implements [propagation.TextMapPropagator].
func (s sameForm) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	var found b3.Encoding
	if carrier.Get("b3") != "" {
		found |= b3.B3SingleHeader
	}
	if carrier.Get("x-b3-traceid") != "" {
		found |= b3.B3MultipleHeader
	}
	if found == 0 {
		found = s.otherwise
	}
	b3.New(b3.WithInjectEncoding(found)).Inject(ctx, carrier)
}

// Fields implements [propagation.TextMapPropagator]. It names all that may be read, in either form: who reads and who does not is decided by it.
func (sameForm) Fields() []string {
	return b3.New(b3.WithInjectEncoding(b3.B3SingleHeader | b3.B3MultipleHeader)).Fields()
}
