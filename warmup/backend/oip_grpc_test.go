package backend_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/inference"
)

// tensorModel has an input of each type.
func tensorModel() backend.Model {
	model := backend.Model{Name: "m", Batched: true}
	for _, datatype := range []string{"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64", "BYTES"} {
		model.Inputs = append(model.Inputs, backend.Tensor{Name: datatype, Datatype: datatype, Shape: []int64{-1, 3}})
	}

	return model
}

// TestBothEndpointsAskTheSame has a server that sends back what it got: in JSON it must be what would have been asked over HTTP.
func TestBothEndpointsAskTheSame(t *testing.T) {
	t.Parallel()
	a, client := call(t, offers{})
	a.infer = func(_ context.Context, r *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
		answer := &inference.ModelInferResponse{ModelName: r.GetModelName(), Id: r.GetId(), RawOutputContents: r.GetRawInputContents()}
		for _, input := range r.GetInputs() {
			answer.Outputs = append(answer.Outputs, &inference.ModelInferResponse_InferOutputTensor{Name: input.GetName(), Datatype: input.GetDatatype(), Shape: input.GetShape()})
		}

		return answer, nil
	}
	oip := backend.NewOIP(client)
	for seed := range uint64(20) {
		overHTTP, err := oip.Request(tensorModel(), backend.Shape{Batch: 2, Endpoint: backend.EndpointHTTP}, seed)
		if err != nil {
			t.Fatal(err)
		}
		overGRPC, err := oip.Request(tensorModel(), backend.Shape{Batch: 2, Endpoint: backend.EndpointGRPC}, seed)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(t.Context(), overGRPC)
		if err != nil {
			t.Fatal(err)
		}
		sent := strings.Replace(string(overHTTP.Body), `"inputs"`, `"outputs"`, 1)
		// Half precision has about three decimals, BF16 two.
		if err := oip.Compare("infer", answer, backend.Answer{Status: 200, Body: []byte(sent)}, 0.002); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if err := oip.Check("infer", answer, backend.Expect{Finite: true, Equals: []byte(sent), Tolerance: 0.002, Status: 418}); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		other := strings.Replace(sent, `"warm `, `"cold `, 1)
		if err := oip.Compare("infer", answer, backend.Answer{Status: 200, Body: []byte(other)}, 0.002); err == nil || !strings.Contains(err.Error(), `output "BYTES" at 0: expected cold `) {
			t.Errorf("another text: %v", err)
		}
	}
}

func TestHalvesAreRounded(t *testing.T) {
	t.Parallel()
	a, client := call(t, offers{})
	model := backend.Model{Name: "m", Inputs: []backend.Tensor{{Name: "x", Datatype: "FP16", Shape: []int64{4000}}}}
	request, err := backend.NewOIP(client).Request(model, backend.Shape{Endpoint: backend.EndpointGRPC}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	plain, err := backend.NewOIP(client).Request(model, backend.Shape{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Inputs []struct {
			Data []float64 `json:"data"`
		} `json:"inputs"`
	}
	if err := json.Unmarshal(plain.Body, &body); err != nil {
		t.Fatal(err)
	}
	for i, want := range body.Inputs[0].Data {
		bits := int(binary.LittleEndian.Uint16(a.asked.GetRawInputContents()[0][2*i:]))
		got := math.Ldexp(float64(bits&0x3ff+1024), bits>>10-25)
		if want == 0 {
			got = float64(bits)
		}
		if math.Abs(got-want) > want/2048 {
			t.Fatalf("value %d: expected %v, got %v (%#x)", i, want, got, bits)
		}
	}
}

func TestAnswersOverGRPCAreChecked(t *testing.T) {
	t.Parallel()
	typed := func(datatype string, contents *inference.InferTensorContents) *inference.ModelInferResponse {
		return &inference.ModelInferResponse{Outputs: []*inference.ModelInferResponse_InferOutputTensor{{Name: "y", Datatype: datatype, Shape: []int64{2}, Contents: contents}}}
	}
	raw := func(datatype string, values ...any) *inference.ModelInferResponse {
		answer := typed(datatype, nil)
		var content []byte
		for _, value := range values {
			content, _ = binary.Append(content, binary.LittleEndian, value)
		}
		answer.RawOutputContents = [][]byte{content}

		return answer
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, test := range map[string]struct {
		answer *inference.ModelInferResponse
		err    error
		expect backend.Expect
		says   string
		kind   error
	}{
		"good":                    {answer: typed("FP32", &inference.InferTensorContents{Fp32Contents: []float32{0.5, 1e10}})},
		"good, raw":               {answer: raw("FP16", uint16(0x3800), uint16(0xfbff)), expect: backend.Expect{JSON: map[string]string{"outputs.0.data.0": "0.5", "outputs.0.data.1": "-65504"}}},
		"signed, raw":             {answer: raw("INT8", int8(-1), int8(127)), expect: backend.Expect{JSON: map[string]string{"outputs.0.data": "[-1,127]"}}},
		"texts, raw":              {answer: raw("BYTES", uint32(1), []byte("a"), uint32(0)), expect: backend.Expect{JSON: map[string]string{"outputs.0.data": `["a",""]`}}},
		"truth":                   {answer: typed("BOOL", &inference.InferTensorContents{BoolContents: []bool{true, false}}), expect: backend.Expect{JSON: map[string]string{"outputs.0.data": "[true,false]"}}},
		"another value":           {answer: typed("INT32", &inference.InferTensorContents{IntContents: []int32{1, -2}}), expect: backend.Expect{JSON: map[string]string{"outputs.0.data.1": "2"}}, says: "expected 2 at outputs.0.data.1, got -2"},
		"NaN":                     {answer: typed("FP32", &inference.InferTensorContents{Fp32Contents: []float32{0.5, nan}}), says: `output "y" holds NaN`},
		"infinite":                {answer: typed("FP64", &inference.InferTensorContents{Fp64Contents: []float64{math.Inf(-1), 0}}), says: `output "y" holds -Inf`},
		"NaN, raw":                {answer: raw("FP32", float32(1), nan), says: `output "y" holds NaN`},
		"infinite, raw":           {answer: raw("FP32", inf, nan), says: `output "y" holds Infinity`},
		"NaN, half":               {answer: raw("FP16", uint16(0x3800), uint16(0x7e00)), says: `output "y" holds NaN`},
		"infinite, half":          {answer: raw("FP16", uint16(0x7c00), uint16(0)), says: `output "y" holds Infinity`},
		"NaN, brain":              {answer: raw("BF16", uint16(0x7fc0), uint16(0)), says: `output "y" holds NaN`},
		"NaN, double":             {answer: raw("FP64", math.NaN(), 0.5), says: `output "y" holds NaN`},
		"too few":                 {answer: typed("FP32", &inference.InferTensorContents{Fp32Contents: []float32{0.5}}), says: "holds 1 elements, its shape [2] says 2"},
		"too few, raw":            {answer: raw("FP32", float32(1)), says: "holds 1 elements, its shape [2] says 2"},
		"half a value":            {answer: raw("FP32", float32(1), uint16(1)), says: "2 bytes are left of raw_output_contents, expected 4"},
		"half a text":             {answer: raw("BYTES", uint32(7), []byte("a")), says: "1 bytes are left of raw_output_contents, expected a text of 7"},
		"a type that is not ours": {answer: raw("FP8", uint8(1)), says: `of type "FP8"`},
		"tensors without outputs": {answer: &inference.ModelInferResponse{RawOutputContents: [][]byte{{1}}}, says: "1 tensors of 0 outputs"},
		"no outputs":              {answer: &inference.ModelInferResponse{}, says: "holds no outputs"},
		"loading":                 {err: status.Error(codes.Unavailable, "loading"), says: "UNAVAILABLE", kind: backend.ErrNotYet},
		"no such service":         {err: status.Error(codes.Unimplemented, "unknown service"), says: "UNIMPLEMENTED", kind: backend.ErrNotOffered},
		"busy":                    {err: status.Error(codes.ResourceExhausted, "queue is full"), says: "RESOURCE_EXHAUSTED", kind: backend.ErrBusy},
		"too large":               {err: status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5 vs. 4)"), says: "larger than max", kind: backend.ErrRequestRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, client := call(t, offers{})
			a.infer = func(context.Context, *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
				return test.answer, test.err
			}
			oip := backend.NewTriton(client)
			model := backend.Model{Name: "m", Inputs: []backend.Tensor{{Name: "x", Datatype: "FP32", Shape: []int64{2}}}}
			request, err := oip.Request(model, backend.Shape{Endpoint: backend.EndpointGRPC}, 1)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			test.expect.Finite = true
			if test.kind == nil {
				test.kind = backend.ErrBadAnswer
			}
			err = oip.Check("infer m", answer, test.expect)
			if (test.says == "") != (err == nil) || (err != nil && (!strings.Contains(err.Error(), test.says) || !errors.Is(err, test.kind))) {
				t.Errorf("got %v, expected one that says %q", err, test.says)
			}
		})
	}
}

// TestRequestsBeyondAServersLimitAreRefused has a real server whose limit a request exceeds: it says so by the status that means "busy" elsewhere.
func TestRequestsBeyondAServersLimitAreRefused(t *testing.T) {
	t.Parallel()
	_, client := call(t, offers{}, grpc.MaxRecvMsgSize(100))
	oip := backend.NewOIP(client)
	request, err := oip.Request(tensorModel(), backend.Shape{Batch: 100, Endpoint: backend.EndpointGRPC}, 1)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := oip.Check("infer m", answer, backend.Expect{}); !errors.Is(err, backend.ErrRequestRefused) || errors.Is(err, backend.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

func TestGRPCIsPlannedWhereItIsConfigured(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"": "[]", "localhost:8001": "[http grpc]"} {
		client := serve(t, fake{"GET /v2/models/m": {200, metadata}}, backend.ClientSettings{GRPC: backend.Peer{Network: "tcp", Address: address}})
		model, err := backend.NewOIP(client).Describe(t.Context(), "m")
		if got := fmt.Sprint(model.Endpoints); err != nil || got != want {
			t.Errorf("backend.grpc %q: got %s, %v; expected %s", address, got, err, want)
		}
	}
}

// TestGRPCNeedsHTTP2 has a server that knows nothing but HTTP/1.1: the error says what to set.
func TestGRPCNeedsHTTP2(t *testing.T) {
	t.Parallel()
	client := serve(t, fake{}, backend.ClientSettings{})
	request, err := backend.NewOIP(client).Request(tensorModel(), backend.Shape{Batch: 1, Endpoint: backend.EndpointGRPC}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(t.Context(), request); err == nil || !strings.Contains(err.Error(), "backend.grpc says where it is") {
		t.Errorf("got %v", err)
	}
}

func TestOIPHasNoChat(t *testing.T) {
	t.Parallel()
	if _, err := backend.NewOIP(nil).Request(tensorModel(), backend.Shape{Endpoint: backend.EndpointChat}, 1); !errors.Is(err, backend.ErrNoRequest) {
		t.Errorf("got %v", err)
	}
}

func FuzzCheckOfACall(f *testing.F) {
	for _, answer := range []*inference.ModelInferResponse{
		{Outputs: []*inference.ModelInferResponse_InferOutputTensor{{Name: "y", Datatype: "BYTES", Shape: []int64{-1}}}, RawOutputContents: [][]byte{{1, 0, 0, 0, 7}}},
		{Outputs: []*inference.ModelInferResponse_InferOutputTensor{{Name: "y", Datatype: "FP16"}}, RawOutputContents: [][]byte{{0, 0x7c}}},
	} {
		message, err := proto.Marshal(answer)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
	}
	oip := backend.NewOIP(nil)
	f.Fuzz(func(_ *testing.T, message []byte) {
		body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
		answer := backend.Answer{Status: 200, Header: map[string][]string{"Content-Type": {"application/grpc"}}, Trailer: map[string][]string{"Grpc-Status": {"0"}}, Body: body}
		_ = oip.Check("infer", answer, backend.Expect{Finite: true})
		_ = oip.Compare("infer", answer, backend.Answer{Status: 200, Body: []byte(`{"outputs":[{"name":"y","data":[1]}]}`)}, 0.1)
	})
}
