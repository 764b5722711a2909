package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// reflected is a server as its reflection describes it. No generated code of the service is used.
type reflected struct {
	conn     *grpc.ClientConn
	services []string
	service  protoreflect.ServiceDescriptor
}

// reflect asks the server what it serves, and for the description of one service.
func reflect(ctx context.Context, conn *grpc.ClientConn, service protoreflect.FullName) (*reflected, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the reflection stream: %w", err)
	}
	ask := func(request *reflection.ServerReflectionRequest) (*reflection.ServerReflectionResponse, error) {
		if err := stream.Send(request); err != nil {
			return nil, err
		}

		return stream.Recv()
	}
	r := &reflected{conn: conn}
	listed, err := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}})
	if err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	for _, found := range listed.GetListServicesResponse().GetService() {
		r.services = append(r.services, found.GetName())
	}
	symbol := &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: string(service)}
	described, err := ask(&reflection.ServerReflectionRequest{MessageRequest: symbol})
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", service, err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	for _, bytes := range described.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(bytes, file); err != nil {
			return nil, fmt.Errorf("read the description of %s: %w", service, err)
		}
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, fmt.Errorf("link the description of %s: %w", service, err)
	}
	descriptor, err := files.FindDescriptorByName(service)
	if err != nil {
		return nil, fmt.Errorf("find %s in its description: %w", service, err)
	}
	var ok bool
	if r.service, ok = descriptor.(protoreflect.ServiceDescriptor); !ok {
		return nil, fmt.Errorf("find %s in its description: it is no service", service)
	}

	return r, nil
}

// method is one method of the service, with an empty message for each direction.
type method struct {
	path    string
	desc    grpc.StreamDesc
	request *dynamicpb.Message
	answer  protoreflect.MessageDescriptor
}

// method finds a method and fills a request for it from JSON.
func (r *reflected) method(name protoreflect.Name, json string) (*method, error) {
	found := r.service.Methods().ByName(name)
	if found == nil {
		return nil, errors.New("find method " + string(name) + ": the server's reflection does not name it")
	}
	m := &method{
		path:    fmt.Sprintf("/%s/%s", r.service.FullName(), name),
		desc:    grpc.StreamDesc{StreamName: string(name), ServerStreams: found.IsStreamingServer(), ClientStreams: found.IsStreamingClient()},
		request: dynamicpb.NewMessage(found.Input()),
		answer:  found.Output(),
	}
	if err := protojson.Unmarshal([]byte(json), m.request); err != nil {
		return nil, fmt.Errorf("make a request for %s: %w", name, err)
	}

	return m, nil
}

// payload is the body of the payload of an answer.
func payload(message protoreflect.Message) []byte {
	field := message.Descriptor().Fields().ByName("payload")
	if field == nil {
		return nil
	}
	inner := message.Get(field).Message()

	return inner.Get(inner.Descriptor().Fields().ByName("body")).Bytes()
}
