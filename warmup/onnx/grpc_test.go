package onnx

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight-proxy/pilotlight/warmup/inference"
)

func TestEveryDatatypeComesBackOverGRPC(t *testing.T) {
	s := everyType(t, Settings{})
	client := s.dial()
	for _, datatype := range DatatypeValues() {
		t.Run(datatype.String(), func(t *testing.T) {
			values, err := parseValues(json.RawMessage(typed[datatype].sent), datatype, []int64{3}, 3)
			if err != nil {
				t.Fatal(err)
			}
			ask := func(contents *inference.InferTensorContents, raw [][]byte) *inference.ModelInferResponse {
				answer, err := client.ModelInfer(t.Context(), &inference.ModelInferRequest{
					ModelName: datatype.String(), Id: "7", RawInputContents: raw,
					Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "in", Datatype: datatype.String(), Shape: []int64{3}, Contents: contents}},
				})
				if err != nil {
					t.Fatal(err)
				}
				if answer.GetModelName() != datatype.String() || answer.GetModelVersion() != "1" || answer.GetId() != "7" || len(answer.GetOutputs()) != 1 ||
					answer.GetOutputs()[0].GetName() != "out" || answer.GetOutputs()[0].GetDatatype() != datatype.String() {
					t.Fatalf("got %v", answer)
				}

				return answer
			}
			raw, err := codecs[datatype].encode(nil, values)
			if err != nil {
				t.Fatal(err)
			}
			answer := ask(nil, [][]byte{raw})
			if got := answer.GetRawOutputContents(); len(got) != 1 || string(got[0]) != string(raw) {
				t.Errorf("sent %x, got %x", raw, got)
			}
			answer = ask(codecs[datatype].toContents(values), nil)
			if len(answer.GetRawOutputContents()) != 0 {
				t.Error("typed contents were answered with raw ones")
			}
			back, err := codecs[datatype].fromContents(answer.GetOutputs()[0].GetContents())
			if err != nil || fmt.Sprint(back) != fmt.Sprint(values) {
				t.Errorf("sent %v, got %v, %v", values, back, err)
			}
		})
	}
}

func TestBadCallsNameInputExpectedAndGot(t *testing.T) {
	s := serve(t, Settings{MaxBody: 4096}, map[string]string{
		"sum": sum().write(t), "text": identity(Bytes, "n").write(t), "small": identity(Uint8, "n").write(t),
	}).warm()
	client := s.dial()
	type tensors = []*inference.ModelInferRequest_InferInputTensor
	pair := &inference.InferTensorContents{Fp32Contents: []float32{1, 2}}
	input := func(name, datatype string, contents *inference.InferTensorContents, shape ...int64) *inference.ModelInferRequest_InferInputTensor {
		return &inference.ModelInferRequest_InferInputTensor{Name: name, Datatype: datatype, Shape: shape, Contents: contents}
	}
	good := input("b", "FP32", pair, 1, 2)
	for _, test := range []struct {
		name, model, version string
		inputs               tensors
		raw                  [][]byte
		code                 codes.Code
		want                 []string
	}{
		{"wrong name", "sum", "", tensors{input("c", "FP32", pair, 1, 2), good}, nil, codes.InvalidArgument, []string{`input "c"`, `expected "a" and "b"`}},
		{"missing", "sum", "", tensors{good}, nil, codes.InvalidArgument, []string{`input "a"`, "missing"}},
		{"twice", "sum", "", tensors{good, good}, nil, codes.InvalidArgument, []string{`input "b"`, "twice"}},
		{"datatype", "sum", "", tensors{input("a", "INT8", pair, 1, 2), good}, nil, codes.InvalidArgument, []string{`input "a"`, "expected datatype FP32", `"INT8"`}},
		{"shape", "sum", "", tensors{input("a", "FP32", pair, 2, 1), good}, nil, codes.InvalidArgument, []string{`input "a"`, "expected shape [-1 2]", "got [2 1]"}},
		{"too few", "sum", "", tensors{input("a", "FP32", pair, 2, 2), good}, nil, codes.InvalidArgument, []string{`input "a"`, "expected 4 elements of FP32, got 2"}},
		{"no contents", "sum", "", tensors{input("a", "FP32", nil, 1, 2), good}, nil, codes.InvalidArgument, []string{`input "a"`, "expected 2 elements of FP32, got 0"}},
		{"list of another type", "sum", "", tensors{input("a", "FP32", &inference.InferTensorContents{Fp64Contents: []float64{1, 2}}, 1, 2), good}, nil, codes.InvalidArgument, []string{`input "a"`, "expected 2 elements of FP32, got 0"}},
		{"two lists", "sum", "", tensors{input("a", "FP32", &inference.InferTensorContents{Fp32Contents: []float32{1, 2}, BoolContents: []bool{true}}, 1, 2), good}, nil, codes.InvalidArgument, []string{`input "a"`, "one type"}},
		{"beyond 8 bits", "small", "", tensors{input("in", "UINT8", &inference.InferTensorContents{UintContents: []uint32{256}}, 1)}, nil, codes.InvalidArgument, []string{`input "in"`, "element 0: expected UINT8, got 256"}},
		{"zero byte", "text", "", tensors{input("in", "BYTES", &inference.InferTensorContents{BytesContents: [][]byte{{'a', 0}}}, 1)}, nil, codes.InvalidArgument, []string{`input "in"`, "zero byte"}},
		{"raw too short", "small", "", tensors{input("in", "UINT8", nil, 2)}, [][]byte{{1}}, codes.InvalidArgument, []string{`input "in"`, "expected 2 elements of 1 bytes, got 1 bytes"}},
		{"raw of a huge claim", "sum", "", tensors{input("a", "FP32", nil, 1<<60, 2), good}, [][]byte{{}, {}}, codes.InvalidArgument, []string{`input "a"`, "got 0 bytes"}},
		{"raw and typed", "small", "", tensors{input("in", "UINT8", &inference.InferTensorContents{UintContents: []uint32{1}}, 1)}, [][]byte{{1}}, codes.InvalidArgument, []string{`input "in"`, "got them in contents and in raw_input_contents"}},
		{"raw for some", "sum", "", tensors{input("a", "FP32", nil, 1, 2), good}, [][]byte{{1}}, codes.InvalidArgument, []string{"expected one for each of 2 inputs, got 1"}},
		{"raw text cut off", "text", "", tensors{input("in", "BYTES", nil, 1)}, [][]byte{{9, 0, 0, 0, 'a'}}, codes.InvalidArgument, []string{`input "in"`, "element 0"}},
		{"raw text of too many", "text", "", tensors{input("in", "BYTES", nil, 1)}, [][]byte{{0, 0, 0, 0, 0, 0, 0, 0}}, codes.InvalidArgument, []string{`input "in"`, "expected 1 elements, got 2"}},
		{"too large", "text", "", tensors{input("in", "BYTES", nil, 1)}, [][]byte{make([]byte, 5000)}, codes.InvalidArgument, []string{"body: expected at most 4096 bytes, got 50"}},
		{"unknown model", "none", "", nil, nil, codes.NotFound, []string{`model "none"`}},
		{"unknown version", "sum", "2", nil, nil, codes.NotFound, []string{`model "sum"`, `expected "1"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := client.ModelInfer(t.Context(), &inference.ModelInferRequest{
				ModelName: test.model, ModelVersion: test.version, Inputs: test.inputs, RawInputContents: test.raw,
			})
			if status.Code(err) != test.code {
				t.Errorf("got %v, expected %v", err, test.code)
			}
			for _, text := range test.want {
				if !strings.Contains(status.Convert(err).Message(), text) {
					t.Errorf("got %v, expected it to say %q", err, text)
				}
			}
		})
	}
	answer, err := client.ModelInfer(t.Context(), &inference.ModelInferRequest{
		ModelName: "sum", ModelVersion: "1", Inputs: tensors{input("a", "FP32", pair, 1, 2), good},
		Outputs: []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "difference"}},
	})
	if err != nil || len(answer.GetOutputs()) != 1 || fmt.Sprint(answer.GetOutputs()[0].GetContents().GetFp32Contents()) != "[0 0]" {
		t.Errorf("after all that: %v, %v", answer, err)
	}
}

func TestMetadataOverGRPC(t *testing.T) {
	s := serve(t, Settings{Version: "v9", Lazy: true}, map[string]string{"digits": digits})
	client := s.dial()
	if live, err := client.ServerLive(t.Context(), &inference.ServerLiveRequest{}); err != nil || !live.GetLive() {
		t.Errorf("live: %v, %v", live, err)
	}
	if ready, err := client.ServerReady(t.Context(), &inference.ServerReadyRequest{}); err != nil || !ready.GetReady() {
		t.Errorf("ready: %v, %v", ready, err)
	}
	if ready, err := client.ModelReady(t.Context(), &inference.ModelReadyRequest{Name: "digits"}); err != nil || !ready.GetReady() {
		t.Errorf("model ready: %v, %v", ready, err)
	}
	if _, err := client.ModelReady(t.Context(), &inference.ModelReadyRequest{Name: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown model ready: %v", err)
	}
	if about, err := client.ServerMetadata(t.Context(), &inference.ServerMetadataRequest{}); err != nil || about.GetName() != "pilotlight" || about.GetVersion() != "v9" {
		t.Errorf("server: %v, %v", about, err)
	}
	about, err := client.ModelMetadata(t.Context(), &inference.ModelMetadataRequest{Name: "digits", Version: "1"})
	if err != nil || fmt.Sprint(about.GetInputs()[0].GetShape(), about.GetOutputs()[0].GetShape()) != "[-1 1 8 8] [-1 10]" || about.GetInputs()[0].GetDatatype() != "FP32" {
		t.Errorf("model: %v, %v", about, err)
	}
	if _, err := client.ModelMetadata(t.Context(), &inference.ModelMetadataRequest{Name: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown model: %v", err)
	}
}

func TestPanicBecomesAStatus(t *testing.T) {
	s := serve(t, Settings{Lazy: true}, map[string]string{"flag": identity(Bool, "n").write(t)})
	s.server.models[0].signature.inputs[0].datatype = 99 // for which there is no codec
	_, err := s.dial().ModelInfer(t.Context(), &inference.ModelInferRequest{ModelName: "flag", Inputs: []*inference.ModelInferRequest_InferInputTensor{{
		Name: "in", Datatype: "ONNX type 99", Shape: []int64{1}, Contents: &inference.InferTensorContents{BoolContents: []bool{true}},
	}}})
	if status.Code(err) != codes.Internal {
		t.Errorf("got %v", err)
	}
}
