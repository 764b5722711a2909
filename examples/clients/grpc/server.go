package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testing "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// maxMessage is above the 4 MiB that grpc-go takes by default, so that a larger message can be tried.
const maxMessage = 64 << 20

// service answers as the interoperability tests of gRPC ask for, but that the payload of a unary call comes back as it went.
type service struct {
	testing.UnimplementedTestServiceServer
}

// serve serves until ctx ends.
func serve(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", address, err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	testing.RegisterTestServiceServer(server, service{})
	reflection.Register(server)
	defer context.AfterFunc(ctx, server.Stop)()

	return server.Serve(listener)
}

// UnaryCall returns the payload that it got, or the status that it was asked for.
func (service) UnaryCall(_ context.Context, request *testing.SimpleRequest) (*testing.SimpleResponse, error) {
	if wanted := request.GetResponseStatus(); wanted.GetCode() != 0 {
		return nil, status.Error(codes.Code(wanted.GetCode()), wanted.GetMessage()) //nolint:gosec // a test asks for codes that exist
	}

	return &testing.SimpleResponse{Payload: request.GetPayload()}, nil
}

// StreamingOutputCall sends payloads of the sizes that it was asked for, each after its interval.
func (service) StreamingOutputCall(request *testing.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[testing.StreamingOutputCallResponse]) error {
	return answer(stream.Context(), request, stream.Send)
}

// FullDuplexCall answers each message as StreamingOutputCall does, before it reads the next one.
func (service) FullDuplexCall(stream grpc.BidiStreamingServer[testing.StreamingOutputCallRequest, testing.StreamingOutputCallResponse]) error {
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := answer(stream.Context(), request, stream.Send); err != nil {
			return err
		}
	}
}

func answer(ctx context.Context, request *testing.StreamingOutputCallRequest, send func(*testing.StreamingOutputCallResponse) error) error {
	for _, parameters := range request.GetResponseParameters() {
		select {
		case <-time.After(time.Duration(parameters.GetIntervalUs()) * time.Microsecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := send(&testing.StreamingOutputCallResponse{Payload: &testing.Payload{Body: make([]byte, parameters.GetSize())}}); err != nil {
			return err
		}
	}

	return nil
}
