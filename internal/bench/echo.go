package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	echoService = "bench.Echo"
	unaryMethod = "/" + echoService + "/Unary"
	bidiMethod  = "/" + echoService + "/Stream"
)

// echo is the gRPC service of the origin: whatever comes goes back.
type echo interface {
	unary(ctx context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
	stream(stream grpc.ServerStream) error
}

type echoer struct{}

func (echoer) unary(_ context.Context, in *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
	return in, nil
}

func (echoer) stream(stream grpc.ServerStream) error {
	for {
		var message wrapperspb.BytesValue
		if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

// streamDescription is the bidirectional method for servers and clients alike.
var streamDescription = grpc.StreamDesc{
	StreamName: "Stream", ServerStreams: true, ClientStreams: true,
	Handler: func(server any, stream grpc.ServerStream) error {
		e, ok := server.(echo)
		if !ok {
			return fmt.Errorf("expected an echo, got %T", server)
		}

		return e.stream(stream)
	},
}

// echoDescription is written by hand: two methods over a well-known message need no generated code.
var echoDescription = grpc.ServiceDesc{
	ServiceName: echoService,
	HandlerType: (*echo)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Unary",
		Handler: func(server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := &wrapperspb.BytesValue{}
			if err := decode(in); err != nil {
				return nil, err
			}
			e, ok := server.(echo)
			if !ok {
				return nil, fmt.Errorf("expected an echo, got %T", server)
			}

			return e.unary(ctx, in)
		},
	}},
	Streams: []grpc.StreamDesc{streamDescription},
}

// newEchoServer returns the gRPC server of the origin. It knows no inference; what else it does not know it takes and answers with nothing, so that it can play the collector of
// traces and metrics as well.
func newEchoServer() *grpc.Server {
	server := grpc.NewServer(
		grpc.MaxConcurrentStreams(1000),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			if method, _ := grpc.MethodFromServerStream(stream); strings.HasPrefix(method, "/inference.") {
				return status.Error(codes.Unimplemented, "inferences are answered over HTTP")
			}
			if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
				return err
			}

			return stream.SendMsg(&emptypb.Empty{})
		}))
	server.RegisterService(&echoDescription, echoer{})

	return server
}
