package onnx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight-proxy/pilotlight/warmup/inference"
)

// calls is the protocol's gRPC service.
type calls struct {
	inference.UnimplementedGRPCInferenceServiceServer

	server *Server
}

func (s *Server) grpcServer() *grpc.Server {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(int(min(s.settings.MaxBody, math.MaxInt32))), // refuseLarge comes first
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.UnaryInterceptor(func(ctx context.Context, asked any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
			defer func() {
				if recovered := recover(); recovered != nil {
					s.settings.Logger.Error("request panicked", "path", info.FullMethod, "panic", fmt.Sprint(recovered), "stack", string(debug.Stack()))
					answer, err = nil, status.Errorf(codes.Internal, "the worker failed: %v", recovered)
				}
			}()
			answer, err = handle(ctx, asked)
			if _, known := status.FromError(err); !known {
				cause := asFault(err)
				err = status.Error(cause.kind.code(), cause.text)
			}

			return answer, err
		}),
	)
	inference.RegisterGRPCInferenceServiceServer(server, calls{server: s})

	return server
}

// refuseLarge answers a call whose message is larger than most bytes: gRPC would call that RESOURCE_EXHAUSTED, as if it
// might be smaller another time. The message's length is the first thing that comes.
func refuseLarge(w http.ResponseWriter, r *http.Request, most int64) bool {
	var prefix [5]byte
	n, err := io.ReadFull(r.Body, prefix[:])
	if length := int64(binary.BigEndian.Uint32(prefix[1:])); err == nil && length > most {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", strconv.Itoa(int(codes.InvalidArgument)))
		w.Header().Set("Grpc-Message", strings.ReplaceAll(url.QueryEscape(fmt.Sprintf("body: expected at most %d bytes, got %d", most, length)), "+", " "))
		w.WriteHeader(http.StatusOK)

		return true
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(string(prefix[:n])), r.Body), r.Body}

	return false
}

func (c calls) ServerLive(context.Context, *inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

func (c calls) ServerReady(context.Context, *inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: c.server.allReady()}, nil
}

func (c calls) ModelReady(_ context.Context, asked *inference.ModelReadyRequest) (*inference.ModelReadyResponse, error) {
	m, err := c.server.find(asked.GetName(), asked.GetVersion())
	if err != nil {
		return nil, err
	}

	return &inference.ModelReadyResponse{Ready: c.server.ready(m)}, nil
}

func (c calls) ServerMetadata(context.Context, *inference.ServerMetadataRequest) (*inference.ServerMetadataResponse, error) {
	return &inference.ServerMetadataResponse{Name: "pilotlight", Version: c.server.settings.Version}, nil
}

func (c calls) ModelMetadata(_ context.Context, asked *inference.ModelMetadataRequest) (*inference.ModelMetadataResponse, error) {
	m, err := c.server.find(asked.GetName(), asked.GetVersion())
	if err != nil {
		return nil, err
	}
	describe := func(list []tensorInfo) []*inference.ModelMetadataResponse_TensorMetadata {
		described := make([]*inference.ModelMetadataResponse_TensorMetadata, len(list))
		for i, info := range list {
			described[i] = &inference.ModelMetadataResponse_TensorMetadata{Name: info.name, Datatype: info.datatype.String(), Shape: info.metadataShape()}
		}

		return described
	}

	return &inference.ModelMetadataResponse{
		Name: m.Name, Versions: []string{version}, Platform: platform,
		Inputs: describe(m.signature.inputs), Outputs: describe(m.signature.outputs),
	}, nil
}

func (c calls) ModelInfer(ctx context.Context, sent *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	m, err := c.server.find(sent.GetModelName(), sent.GetModelVersion())
	if err != nil {
		return nil, err
	}
	asked, err := decodeCall(sent, m.signature)
	if err != nil {
		return nil, err
	}
	outputs, err := c.server.infer(ctx, m, asked)
	if err != nil {
		return nil, err
	}

	return encodeCall(m.Name, asked.id, outputs, len(sent.GetRawInputContents()) > 0)
}

// decodeCall is decodeRequest for gRPC.
func decodeCall(sent *inference.ModelInferRequest, takes signature) (request, error) {
	asked := request{id: sent.GetId()}
	for _, output := range sent.GetOutputs() {
		asked.outputs = append(asked.outputs, output.GetName())
	}
	if err := takes.wanted(asked.outputs); err != nil {
		return request{}, err
	}
	raw := sent.GetRawInputContents()
	if len(raw) > 0 && len(raw) != len(sent.GetInputs()) {
		return request{}, faultf(invalid, "raw_input_contents: expected one for each of %d inputs, got %d", len(sent.GetInputs()), len(raw))
	}
	inputs := newGather(takes)
	for i, input := range sent.GetInputs() {
		slot, count, err := inputs.place(input.GetName(), input.GetDatatype(), input.GetShape())
		if err != nil {
			return request{}, err
		}
		if len(raw) > 0 {
			if lists(input.GetContents()) > 0 {
				return request{}, faultf(invalid, "input %q: expected its elements once, got them in contents and in raw_input_contents", input.GetName())
			}
			slot.values, err = codecs[slot.datatype].decode(raw[i], count)
		} else {
			slot.values, err = typedValues(input.GetContents(), slot.datatype, count)
		}
		if err != nil {
			return request{}, faultf(invalid, "input %q: %v", input.GetName(), err)
		}
	}
	var err error
	asked.inputs, err = inputs.complete()

	return asked, err
}

// typedValues takes count elements out of the list that belongs to the datatype. No other list may have any.
func typedValues(list *contents, datatype Datatype, count int64) (any, error) {
	values, err := codecs[datatype].fromContents(list)
	if err != nil {
		return nil, err
	}
	got := length(values)
	if int64(got) != count {
		return nil, fmt.Errorf("contents: expected %d elements of %s, got %d", count, datatype, got)
	}
	if lists(list) > 1 {
		return nil, errors.New("contents: expected elements of one type, got several")
	}

	return values, nil
}

// lists counts the lists of contents that have elements.
func lists(list *contents) int {
	used := 0
	for _, length := range []int{
		len(list.GetBoolContents()), len(list.GetIntContents()), len(list.GetInt64Contents()), len(list.GetUintContents()),
		len(list.GetUint64Contents()), len(list.GetFp32Contents()), len(list.GetFp64Contents()), len(list.GetBytesContents()),
	} {
		if length > 0 {
			used++
		}
	}

	return used
}

// encodeCall is encodeResponse for gRPC. The answer comes in the form that the request had.
func encodeCall(name, id string, outputs []tensor, raw bool) (*inference.ModelInferResponse, error) {
	answer := &inference.ModelInferResponse{ModelName: name, ModelVersion: version, Id: id}
	for _, one := range outputs {
		output := &inference.ModelInferResponse_InferOutputTensor{Name: one.name, Datatype: one.datatype.String(), Shape: one.shape}
		if raw {
			content, err := codecs[one.datatype].encode(nil, one.values)
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", one.name, err)
			}
			answer.RawOutputContents = append(answer.RawOutputContents, content)
		} else {
			output.Contents = codecs[one.datatype].toContents(one.values)
		}
		answer.Outputs = append(answer.Outputs, output)
	}

	return answer, nil
}
