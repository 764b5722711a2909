package backend_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

func TestReady(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reply reply
		want  error
	}{
		{"ready", reply{200, ""}, nil},
		{"ready, said in the body", reply{200, `{"name":"m","ready":true}`}, nil},
		{"not ready in a 200", reply{200, `{"name":"m","ready":false}`}, backend.ErrNotYet},
		{"not ready in a 200, as text", reply{200, `{"ready":"False"}`}, backend.ErrNotYet},
		{"triton loading", reply{400, `{"error":"Model version not ready"}`}, backend.ErrNotYet},
		{"unknown", reply{404, ""}, backend.ErrNotYet},
		{"failing", reply{500, ""}, backend.ErrNotYet},
		{"loading", reply{503, ""}, backend.ErrNotYet},
		{"unauthorised", reply{401, ""}, backend.ErrCredentialsRefused},
		{"forbidden", reply{403, ""}, backend.ErrCredentialsRefused},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			oip := backend.NewOIP(serve(t, fake{"GET /v2/models/m/ready": test.reply, "GET /v2/health/ready": test.reply}, backend.ClientSettings{}))
			for _, model := range []string{"m", ""} {
				if err := oip.Ready(t.Context(), model); !errors.Is(err, test.want) {
					t.Errorf("model %q: got %v, expected %v", model, err, test.want)
				}
			}
		})
	}
	client, err := backend.NewClient(backend.ClientSettings{Network: "unix", Address: "/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	if err := backend.NewOIP(client).Ready(t.Context(), "m"); !errors.Is(err, backend.ErrNotYet) {
		t.Errorf("nobody there: got %v, expected not yet", err)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reply reply
		want  []string
		err   error
	}{
		{"loaded ones", reply{200, `[{"name":"a","version":"1","state":"READY"},{"name":"a","version":"2","state":"READY"},{"name":"b","state":"UNAVAILABLE"},{"name":"c","state":"READY"},{"name":"d"}]`}, []string{"a", "c"}, nil},
		{"none loaded", reply{200, `[]`}, nil, nil},
		{"no index", reply{404, ""}, nil, backend.ErrNotOffered},
		{"not a list", reply{200, `{}`}, nil, backend.ErrNotOffered},
		{"loading", reply{503, ""}, nil, backend.ErrNotYet},
		{"one is loading", reply{200, `[{"name":"a","state":"READY"},{"name":"b","state":"LOADING"}]`}, nil, backend.ErrNotYet},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			oip := backend.NewOIP(serve(t, fake{"POST /v2/repository/index": test.reply}, backend.ClientSettings{}))
			got, err := oip.Models(t.Context())
			if !slices.Equal(got, test.want) || !errors.Is(err, test.err) {
				t.Errorf("got %v, %v; expected %v, %v", got, err, test.want, test.err)
			}
		})
	}
}

const metadata = `{"name":"m","versions":["1"],"platform":"p","inputs":[{"name":"x","datatype":"FP32","shape":[-1,3]}],"outputs":[{"name":"y","datatype":"FP32","shape":[-1,2]}]}`

func TestDescribe(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name             string
		metadata, config string
		want             backend.Model
	}{
		{"open first dimension", metadata, "", backend.Model{Batched: true}},
		{"fixed first dimension", strings.Replace(metadata, "-1,3", "1,3", 1), "", backend.Model{}},
		{"configured batches", metadata, `{"max_batch_size":8,"dynamic_batching":{"preferred_batch_size":[4]}}`, backend.Model{Batched: true, MaxBatch: 8, Preferred: []int{4}}},
		{"sequences", metadata, `{"max_batch_size":0,"sequence_batching":{}}`, backend.Model{Batched: true, NoRequest: "it keeps state between the requests of a sequence"}},
		{"decoupled", metadata, `{"model_transaction_policy":{"decoupled":true}}`, backend.Model{Batched: true, NoRequest: "it answers one request with any number of answers"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := fake{"GET /v2/models/m": {200, test.metadata}}
			if test.config != "" {
				server["GET /v2/models/m/config"] = reply{200, test.config}
			}
			got, err := backend.NewOIP(serve(t, server, backend.ClientSettings{})).Describe(t.Context(), "m")
			if err != nil {
				t.Fatal(err)
			}
			if got.Batched != test.want.Batched || got.MaxBatch != test.want.MaxBatch || got.NoRequest != test.want.NoRequest || !slices.Equal(got.Preferred, test.want.Preferred) {
				t.Errorf("got %+v, expected %+v", got, test.want)
			}
			if len(got.Inputs) != 1 || got.Inputs[0].Datatype != "FP32" || len(got.Outputs) != 1 {
				t.Errorf("got tensors %+v, %+v", got.Inputs, got.Outputs)
			}
		})
	}
}

func TestConfigurationIsAskedForWhereThereIsOne(t *testing.T) {
	t.Parallel()
	for extensions, want := range map[string]int{`["model_configuration"]`: 8, `["classification"]`: 0} {
		client := serve(t, fake{
			"GET /v2": {200, `{"name":"x","version":"1","extensions":` + extensions + `}`}, "GET /v2/models/m": {200, metadata},
			"GET /v2/models/m/config": {200, `{"max_batch_size":8}`},
		}, backend.ClientSettings{})
		dialect, err := backend.Detect(t.Context(), client, backend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := dialect.Describe(t.Context(), "m"); err != nil || got.MaxBatch != want {
			t.Errorf("extensions %s: got %+v, %v", extensions, got, err)
		}
	}
}

type inferRequest struct {
	ID     string `json:"id"`
	Inputs []struct {
		Name     string            `json:"name"`
		Shape    []int64           `json:"shape"`
		Datatype string            `json:"datatype"`
		Data     []json.RawMessage `json:"data"`
	} `json:"inputs"`
}

func TestRequestIsValidAndUnique(t *testing.T) {
	t.Parallel()
	oip := backend.NewOIP(nil)
	for _, datatype := range []string{"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64", "BYTES"} {
		model := backend.Model{Name: "a/b", Batched: true, Inputs: []backend.Tensor{{Name: `in "1"`, Datatype: datatype, Shape: []int64{-1, -1, 7}}}}
		seen := map[string]bool{}
		for seed := range uint64(20) {
			request, err := oip.Request(model, backend.Shape{Batch: 3}, seed)
			if err != nil {
				t.Fatalf("%s: %v", datatype, err)
			}
			if request.Path != "/v2/models/a%2Fb/infer" || request.Method != http.MethodPost {
				t.Errorf("%s: request to %s %s", datatype, request.Method, request.Path)
			}
			var got inferRequest
			if err := json.Unmarshal(request.Body, &got); err != nil {
				t.Fatalf("%s: %v in %s", datatype, err, request.Body)
			}
			input := got.Inputs[0]
			if !slices.Equal(input.Shape, []int64{3, 1, 7}) || len(input.Data) != 21 || input.Name != `in "1"` || input.Datatype != datatype {
				t.Errorf("%s: got %+v", datatype, input)
			}
			seen[fmt.Sprintf("%s", input.Data)] = true
		}
		if len(seen) < 19 {
			t.Errorf("%s: only %d of 20 requests differ", datatype, len(seen))
		}
	}
}

func TestRequestRefuses(t *testing.T) {
	t.Parallel()
	oip := backend.NewOIP(nil)
	tensor := func(datatype string, shape ...int64) backend.Model {
		return backend.Model{Name: "m", Inputs: []backend.Tensor{{Name: "x", Datatype: datatype, Shape: shape}}}
	}
	stateful := tensor("FP32", 1)
	stateful.NoRequest = "it keeps state"
	tests := []struct {
		name  string
		model backend.Model
		batch int
		want  string
	}{
		{"unknown type", tensor("COMPLEX64", 1), 1, `type "COMPLEX64"`},
		{"stateful", stateful, 1, "it keeps state"},
		{"too large", tensor("FP32", 1<<20, 1<<20), 1, "exceed"},
		{"so large that it overflows", tensor("FP32", 1<<40, 1<<40, 1<<40), 1, "exceed"},
		{"a batch for a model without", tensor("FP32", 1, 3), 2, "no batches"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := oip.Request(test.model, backend.Shape{Batch: test.batch}, 1)
			if !errors.Is(err, backend.ErrNoRequest) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, expected one that says %q", err, test.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	outputs := func(data string) string {
		return `{"model_name":"m","outputs":[{"name":"probs","shape":[1,3],"datatype":"FP32","data":` + data + `}]}`
	}
	tests := []struct {
		name   string
		status int
		body   string
		want   error
		says   string
	}{
		{"good", 200, outputs("[0.1,0.2,0.7]"), nil, ""},
		{"good, nested", 200, outputs("[[0.1, 0.2, 7e-1]]"), nil, ""},
		{"good, text", 200, `{"outputs":[{"name":"t","shape":[2],"datatype":"BYTES","data":["a,\"b]","NaN"]}]}`, nil, ""},
		{"error null", 200, `{"error":null,"outputs":[{"name":"t","shape":[1],"data":[1]}]}`, nil, ""},
		{"NaN", 200, outputs("[0.1,NaN,0.7]"), backend.ErrBadAnswer, `output "probs" holds NaN`},
		{"infinity", 200, outputs("[0.1,-Infinity,0.7]"), backend.ErrBadAnswer, `output "probs" holds -Infinity`},
		{"null", 200, outputs("[0.1,null,0.7]"), backend.ErrBadAnswer, `output "probs" holds null`},
		{"beyond a double", 200, outputs("[0.1,1e999,0.7]"), backend.ErrBadAnswer, `output "probs" holds 1e999`},
		{"too few elements", 200, outputs("[0.1,0.2]"), backend.ErrBadAnswer, "holds 2 elements, its shape [1 3] says 3"},
		{"error in a 200", 200, `{"error":"out of memory"}`, backend.ErrBadAnswer, "out of memory"},
		{"error object in a 200", 200, `{"error":{"code":500},"outputs":[]}`, backend.ErrBadAnswer, "holds an error"},
		{"no outputs", 200, `{}`, backend.ErrBadAnswer, "no outputs"},
		{"no JSON", 200, `<html>`, backend.ErrBadAnswer, "html"},
		{"failed", 500, `{"error":"CUDA out of memory"}`, backend.ErrBadAnswer, "status 500"},
		{"refused", 400, `{"error":"unexpected shape"}`, backend.ErrRequestRefused, "unexpected shape"},
		{"queue full", 429, ``, backend.ErrBusy, "status 429"},
		{"busy", 503, ``, backend.ErrBusy, "status 503"},
		{"no such model", 404, ``, backend.ErrNotYet, "status 404"},
		{"forbidden", 403, ``, backend.ErrCredentialsRefused, "status 403"},
	}
	oip := backend.NewOIP(nil)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := oip.Check("infer m", backend.Answer{Status: test.status, Body: []byte(test.body)}, backend.Expect{Finite: true})
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, expected %v", err, test.want)
			}
			if err != nil && (!strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "infer m")) {
				t.Errorf("%q does not say %q", err, test.says)
			}
		})
	}
	if err := oip.Check("infer m", backend.Answer{Status: 200, Body: []byte(outputs("[NaN,1,2]"))}, backend.Expect{}); err != nil {
		t.Errorf("finite was not asked for: %v", err)
	}
	if err := oip.Check("infer m", backend.Answer{Status: 202}, backend.Expect{Status: 202}); err != nil {
		t.Errorf("202 was expected: %v", err)
	}
	long := backend.Answer{Status: 500, Body: []byte(strings.Repeat("é\x00", 1000))}
	if err := oip.Check("infer m", long, backend.Expect{}); len(err.Error()) > 400 || strings.Contains(err.Error(), "\x00") {
		t.Errorf("the excerpt is not bounded or not clean: %d bytes", len(err.Error()))
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	oip := backend.NewOIP(nil)
	tests := []struct {
		path    string
		ready   bool
		model   string
		live    bool
		control bool
	}{
		{"/v2/health/ready", true, "", false, false},
		{"/v2/health/ready/", true, "", false, false},
		{"//v2/x/../health/./ready", true, "", false, false},
		{"/v2/models/m/ready", true, "m", false, false},
		{"/v2/models/m/versions/3/ready", true, "m", false, false},
		{"/v2/models/m/infer", false, "", false, false},
		{"/v2/models/ready", false, "", false, false},
		{"/v2/health/live", false, "", true, false},
		{"/v2/repository/models/m/load", false, "", false, true},
		{"/v2/repository/models/m/unload", false, "", false, true},
		{"/v2/repository/models/a/b/unload", false, "", false, true},
		{"/v2/models/../repository//models/m/unload", false, "", false, true},
		{"/v2/repository/a/models/m/load", false, "", false, true}, // Triton's form for one of several repositories
		{"/v2/repository/models/m/load/", false, "", false, true},
		{"/v2/repository/models/x/../../../load", false, "", false, true},
		{"/v2/repository/models/m/load/../index", false, "", false, false},
		{"/v2/repository/index", false, "", false, false},
		{"/v2/models/load", false, "", false, false},
		{"/inference.GRPCInferenceService/RepositoryModelLoad", false, "", false, true},
		{"/inference.GRPCInferenceService/RepositoryModelUnload", false, "", false, true},
		{"/inference.GRPCInferenceService/RepositoryIndex", false, "", false, false},
		{"/inference.GRPCInferenceService/ModelInfer", false, "", false, false},
		{"/", false, "", false, false},
		{"", false, "", false, false},
	}
	for _, test := range tests {
		model, ready := oip.ReadyPath(test.path)
		if ready != test.ready || model != test.model || oip.LivePath(test.path) != test.live || oip.ControlPath(test.path) != test.control {
			t.Errorf("%s: ready %v of %q, live %v, control %v; expected %+v", test.path, ready, model, oip.LivePath(test.path), oip.ControlPath(test.path), test)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"outputs":[{"name":"a","shape":[1],"data":[NaN,"\"",-Infinity]}]}`))
	f.Add([]byte(`{"outputs":[{"name":"a","data":["`))
	oip := backend.NewOIP(nil)
	f.Fuzz(func(_ *testing.T, body []byte) {
		_ = oip.Check("infer", backend.Answer{Status: 200, Body: body}, backend.Expect{Finite: true})
	})
}

func BenchmarkRequest(b *testing.B) {
	oip := backend.NewOIP(nil)
	model := backend.Model{Name: "m", Batched: true, Inputs: []backend.Tensor{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 3, 224, 224}}}}
	for b.Loop() {
		if _, err := oip.Request(model, backend.Shape{Batch: 1}, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkListening(b *testing.B) {
	client, err := backend.NewClient(backend.ClientSettings{Network: "tcp", Address: "127.0.0.1:9"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if client.Listening(b.Context()) == nil {
			b.Fatal("somebody listens on the discard port")
		}
	}
}

// TestTritonThatRefusesItsIndex is PyTriton, and the controls in which the credentials are what is refused.
func TestTritonThatRefusesItsIndex(t *testing.T) {
	t.Parallel()
	const metadata = `{"name":"triton","version":"2","extensions":["model_repository"]}`
	for name, test := range map[string]struct {
		server fake
		want   error
		says   string
	}{
		"the index alone":      {fake{"POST /v2/repository/index": {403, "This API is restricted"}, "GET /v2": {200, metadata}}, backend.ErrNotOffered, "no matter of credentials"},
		"all of it":            {fake{"POST /v2/repository/index": {403, "who?"}, "GET /v2": {403, "who?"}}, backend.ErrCredentialsRefused, "who?"},
		"by want of a token":   {fake{"POST /v2/repository/index": {401, "who?"}, "GET /v2": {200, metadata}}, backend.ErrCredentialsRefused, "who?"},
		"no index, and no 403": {fake{"GET /v2": {200, metadata}}, backend.ErrNotOffered, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := backend.NewTriton(serve(t, test.server, backend.ClientSettings{})).Models(t.Context())
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) || (errors.Is(test.want, backend.ErrNotOffered) && errors.Is(err, backend.ErrCredentialsRefused)) {
				t.Errorf("got %v, expected %v that says %q", err, test.want, test.says)
			}
		})
	}
}
