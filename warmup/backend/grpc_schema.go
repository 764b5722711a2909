package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	// schemaLimit bounds a file of descriptors and what a server sends of them, in bytes; schemaFiles bounds how many .proto files they describe.
	schemaLimit = 16 << 20
	schemaFiles = 1000
)

// Schema describes the messages of services.
type Schema struct{ files *protoregistry.Files }

// ReadSchema reads what protoc writes with --include_imports --descriptor_set_out.
func ReadSchema(path string) (*Schema, error) {
	content, err := readBounded(path, schemaLimit)
	if err != nil {
		return nil, fmt.Errorf("read descriptors: %w", err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(content, set); err != nil {
		return nil, fmt.Errorf("read descriptors %s: expected what protoc writes with --descriptor_set_out: %w", path, err)
	}
	schema, err := newSchema(set)
	if err != nil {
		return nil, fmt.Errorf("read descriptors %s: %w", path, err)
	}

	return schema, nil
}

func newSchema(set *descriptorpb.FileDescriptorSet) (*Schema, error) {
	if len(set.GetFile()) == 0 || len(set.GetFile()) > schemaFiles {
		return nil, fmt.Errorf("they describe %d files, expected 1 to %d", len(set.GetFile()), schemaFiles)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, err
	}

	return &Schema{files}, nil
}

// method finds /package.Service/Method.
func (s *Schema) method(path string) (protoreflect.MethodDescriptor, error) {
	service, name := splitMethod(path)
	found, err := s.files.FindDescriptorByName(protoreflect.FullName(service))
	described, ok := found.(protoreflect.ServiceDescriptor)
	if err != nil || !ok {
		return nil, fmt.Errorf("the descriptors hold no service %s", service)
	}
	method := described.Methods().ByName(protoreflect.Name(name))
	if method != nil {
		return method, nil
	}
	names := make([]string, described.Methods().Len())
	for i := range names {
		names[i] = string(described.Methods().Get(i).Name())
	}

	return nil, fmt.Errorf("service %s has no method %s, expected one of %s", service, name, strings.Join(names, ", "))
}

// splitMethod takes /package.Service/Method apart.
func splitMethod(path string) (service, method string) {
	service, method, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")

	return service, method
}

// reflected asks the server itself for the descriptors of a service: by version 1 of the protocol, then by v1alpha, whose messages are the same.
// ErrNotOffered: it tells none.
func reflected(ctx context.Context, client *Client, service string) (*Schema, error) {
	act := "ask for the descriptors of " + service
	var asked error
	for _, version := range []string{"v1", "v1alpha"} {
		r := reflection{client: client, act: act, method: "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo", files: map[string]*descriptorpb.FileDescriptorProto{}}
		set, err := r.collect(ctx, service)
		if err == nil {
			return newSchema(set)
		}
		if !errors.Is(err, ErrNotOffered) {
			return nil, err
		}
		asked = err
	}

	return nil, asked
}

// reflection is one conversation with a server about its descriptors.
type reflection struct {
	client      *Client
	act, method string
	files       map[string]*descriptorpb.FileDescriptorProto
	bytes       int
}

// collect asks for the file of a service, then for those it imports that did not come along.
func (r *reflection) collect(ctx context.Context, service string) (*descriptorpb.FileDescriptorSet, error) {
	request := &grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
	}
	for {
		if err := r.ask(ctx, request); err != nil {
			return nil, err
		}
		name := r.missing()
		if name == "" {
			set := &descriptorpb.FileDescriptorSet{}
			for _, file := range r.files {
				set.File = append(set.File, file)
			}

			return set, nil
		}
		before := len(r.files)
		if known, err := protoregistry.GlobalFiles.FindFileByPath(name); err == nil {
			r.files[name] = protodesc.ToFileDescriptorProto(known) // such as google/protobuf/any.proto, which some servers leave out
		}
		if len(r.files) == before {
			request.MessageRequest = &grpc_reflection_v1.ServerReflectionRequest_FileByFilename{FileByFilename: name}
		}
		if len(r.files) > schemaFiles {
			return nil, r.bad(fmt.Errorf("more than %d files", schemaFiles))
		}
	}
}

// missing is a file that another one imports, and that nobody has sent.
func (r *reflection) missing() string {
	for _, file := range r.files {
		for _, name := range file.GetDependency() {
			if r.files[name] == nil {
				return name
			}
		}
	}

	return ""
}

// ask makes one question. The call is a stream of both sides, and ends with the answer because ours ends with the question.
func (r *reflection) ask(ctx context.Context, request *grpc_reflection_v1.ServerReflectionRequest) error {
	reply := &grpc_reflection_v1.ServerReflectionResponse{}
	if err := r.client.call(ctx, r.act, r.method, request, reply); err != nil {
		return err
	}
	if refused := reply.GetErrorResponse(); refused != nil {
		failed := &Error{Act: r.act, Kind: ErrBadAnswer, Status: http.StatusOK, Excerpt: excerpt([]byte(refused.GetErrorMessage()))}
		if codes.Code(refused.GetErrorCode()) == codes.NotFound { //nolint:gosec // a code that is none is not this one
			failed.Kind, failed.Err = ErrNoRequest, errors.New("the server has no such service")
		}

		return failed
	}
	before := len(r.files)
	for _, content := range reply.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(content, file); err != nil {
			return r.bad(err)
		}
		r.files[file.GetName()] = file
		if r.bytes += len(content); r.bytes > schemaLimit {
			return r.bad(fmt.Errorf("more than %d bytes", schemaLimit))
		}
	}
	if len(r.files) == before {
		return r.bad(fmt.Errorf("no descriptor for %v", request.GetMessageRequest()))
	}

	return nil
}

func (r *reflection) bad(err error) error {
	return &Error{Act: r.act, Kind: ErrBadAnswer, Status: http.StatusOK, Err: err}
}
