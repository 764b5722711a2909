package backend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// GRPC speaks to an application of which nothing is known but a sample call. Tested against grpc-go.
//
//	ready        grpc.health.v1 for the sample's service, or for the server where that is not known there: SERVING. Where it is not offered, any answer.
//	             UNAVAILABLE and NOT_SERVING are "not yet", UNAUTHENTICATED and PERMISSION_DENIED refused credentials
//	models       one, called "default"
//	request      the call of warmup.sample, if it is unary, and never any other. JSON becomes a message by warmup.descriptors, or by the server's reflection
//	             (v1, v1alpha); a message as it goes over the wire needs neither
//	streaming    none
//	workers      not told
//	identity     not told
//	ready path   none
//	control      none is known
//	busy         RESOURCE_EXHAUSTED
type GRPC struct {
	client  *Client
	options Options
	// method is what the answer is read by; nil while, and where, nobody knows.
	method atomic.Pointer[protoreflect.MethodDescriptor]
}

// NewGRPC returns the dialect of the server that client speaks to.
func NewGRPC(client *Client, options Options) *GRPC { return &GRPC{client: client, options: options} }

// Name implements [Dialect].
func (*GRPC) Name() string { return "grpc" }

// Up implements [Dialect].
func (g *GRPC) Up(ctx context.Context) error {
	_, err := g.health(ctx, "")
	if failed, ok := errors.AsType[*Error](err); ok && failed.Status != 0 {
		return nil
	}

	return err
}

// Ready implements [Dialect].
func (g *GRPC) Ready(ctx context.Context, _ string) error {
	services := []string{""}
	if g.options.Sample != nil {
		own, _ := splitMethod(g.options.Sample.Path)
		services = []string{own, ""}
	}
	for _, service := range services {
		state, err := g.health(ctx, service)
		failed, _ := errors.AsType[*Error](err)
		switch {
		case errors.Is(err, ErrNotOffered):
			return nil
		case failed != nil && failed.Status == http.StatusNotFound:
			continue
		case err != nil:
			return err
		case state != grpc_health_v1.HealthCheckResponse_SERVING:
			// To say so is no sign of a model that was unloaded: servers say it when they are ill, too.
			return &Error{Act: healthAct(service), Kind: ErrNotYet, Status: http.StatusServiceUnavailable, Err: errors.New(state.String())}
		default:
			return nil
		}
	}

	return nil
}

func healthAct(service string) string {
	if service == "" {
		return "ask whether the server is ready: grpc.health.v1"
	}

	return "ask whether " + service + " is ready: grpc.health.v1"
}

// Models implements [Dialect].
func (*GRPC) Models(context.Context) ([]string, error) { return []string{DefaultModel}, nil }

// Describe implements [Dialect]: it makes the message of the sample, since a message that cannot be made warms nothing.
func (g *GRPC) Describe(ctx context.Context, model string) (Model, error) {
	described := Model{Name: model}
	sample := g.options.Sample
	if sample == nil {
		described.NoRequest = "nothing says that a call to this application has no side effects; a file under warmup.sample would"

		return described, nil
	}
	schema, err := g.schema(ctx)
	if errors.Is(err, ErrNotOffered) && sample.raw {
		described.Hint = string(sample.Body)

		return described, nil
	}
	if errors.Is(err, ErrNotOffered) {
		return Model{}, g.unusable(errors.New("the server offers no reflection; name a file of descriptors under warmup.descriptors, or give the message itself as @file"))
	}
	if err != nil {
		return Model{}, err
	}
	method, err := schema.method(sample.Path)
	if err != nil {
		return Model{}, g.unusable(err)
	}
	if method.IsStreamingClient() || method.IsStreamingServer() {
		return Model{}, g.unusable(fmt.Errorf("method %s streams, and only calls of one request and one answer can be made; a unary method of the same model warms it as well", sample.Path))
	}
	message, err := encode(sample, method, schema)
	if err != nil {
		return Model{}, g.unusable(err)
	}
	g.method.Store(&method)
	described.Hint = string(message)

	return described, nil
}

// encode makes a message of a sample.
func encode(sample *Sample, method protoreflect.MethodDescriptor, schema *Schema) ([]byte, error) {
	message := dynamicpb.NewMessage(method.Input())
	if sample.raw {
		if err := proto.Unmarshal(sample.Body, message); err != nil {
			return nil, fmt.Errorf("read message of type %s: %w", method.Input().FullName(), err)
		}

		return sample.Body, nil
	}
	options := protojson.UnmarshalOptions{Resolver: dynamicpb.NewTypes(schema.files)}
	if err := options.Unmarshal(sample.Body, message); err != nil {
		return nil, fmt.Errorf("make a message of type %s of JSON: %w", method.Input().FullName(), err)
	}

	return proto.Marshal(message)
}

// Request implements [Dialect].
func (g *GRPC) Request(model Model, shape Shape, _ uint64) (Request, error) {
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}
	sample := g.options.Sample

	return Request{Method: http.MethodPost, Path: sample.Path, Header: sample.Header.Clone(), Body: []byte(model.Hint), GRPC: true}, nil
}

// Check implements [Dialect]: the status in the trailers, one message, all of its numbers finite. Expectations are about its JSON form; an HTTP status is none of
// them, since that of a gRPC answer is always 200.
func (g *GRPC) Check(act string, answer Answer, expect Expect) error {
	bad := func(err error) error { return &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Err: err} }
	if answer.Truncated {
		return bad(fmt.Errorf("the answer is longer than %d bytes", len(answer.Body)))
	}
	if err := called(act, answer); err != nil {
		return err
	}
	messages, err := unframe(answer.Body)
	if err == nil && len(messages) != 1 {
		err = fmt.Errorf("the answer holds %d messages, expected 1", len(messages))
	}
	if err == nil {
		err = g.look(messages[0], expect)
	}
	if err != nil {
		return bad(err)
	}

	return nil
}

// notFiniteIn names the first number of a message that is NaN or infinite.
func notFiniteIn(message proto.Message) (field string) {
	// Its only error would be one of ours.
	_ = protorange.Range(message.ProtoReflect(), func(values protopath.Values) error {
		var number float64
		switch value := values.Index(-1).Value.Interface().(type) {
		case float32:
			number = float64(value)
		case float64:
			number = value
		}
		if field == "" && (math.IsNaN(number) || math.IsInf(number, 0)) {
			field = values.Path[1:].String()
		}

		return nil
	})

	return field
}

// detectGRPC finds out whether gRPC is spoken where it should be: whatever the answer says, it is one.
func detectGRPC(ctx context.Context, client *Client, options Options) (Dialect, error) {
	const act = "recognise server by gRPC, since warmup.sample is a gRPC call"
	answer, err := client.ask(ctx, Request{Method: http.MethodPost, Path: grpc_health_v1.Health_Check_FullMethodName, GRPC: true})
	if err != nil {
		return nil, renamed(err, act)
	}
	if !speaksGRPC(answer) {
		return nil, notGRPC(act, answer)
	}

	return NewGRPC(client, options), nil
}

// ReadyPath implements [Dialect].
func (*GRPC) ReadyPath(string) (string, bool) { return "", false }

// LivePath implements [Dialect].
func (*GRPC) LivePath(string) bool { return false }

// ControlPath implements [Dialect].
func (*GRPC) ControlPath(string) bool { return false }

func (g *GRPC) health(ctx context.Context, service string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
	reply := &grpc_health_v1.HealthCheckResponse{}
	err := g.client.call(ctx, healthAct(service), grpc_health_v1.Health_Check_FullMethodName, &grpc_health_v1.HealthCheckRequest{Service: service}, reply)

	return reply.GetStatus(), err
}

// schema is what the user has given, or the server tells.
func (g *GRPC) schema(ctx context.Context) (*Schema, error) {
	if g.options.Schema != nil {
		return g.options.Schema, nil
	}
	service, _ := splitMethod(g.options.Sample.Path)

	return reflected(ctx, g.client, service)
}

func (g *GRPC) unusable(err error) error {
	return &Error{Act: "make the call of warmup.sample", Kind: ErrNoRequest, Err: err}
}

// CheckCall judges the answer to a gRPC call of which nothing is known but that it should be a good one.
func CheckCall(act string, answer Answer) error { return (&GRPC{}).Check(act, answer, Expect{}) }

// look judges the message of an answer, as far as anybody knows how to read it.
func (g *GRPC) look(sent []byte, expect Expect) error {
	expects := len(expect.JSON) > 0 || expect.Equals != nil
	method := g.method.Load()
	switch {
	case method == nil && expects:
		return errors.New("nobody says how to read it, so it cannot be compared; a file of descriptors under warmup.descriptors would")
	case method == nil:
		return nil
	}
	message := dynamicpb.NewMessage((*method).Output())
	if err := proto.Unmarshal(sent, message); err != nil {
		return fmt.Errorf("read message of type %s: %w", (*method).Output().FullName(), err)
	}
	if field := notFiniteIn(message); field != "" && expect.Finite {
		return fmt.Errorf("%s is no finite number", field)
	}
	if !expects {
		return nil
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return err
	}

	return expect.compare(content{body: text})
}
