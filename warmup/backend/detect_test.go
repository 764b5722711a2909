package backend_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// The answers below are those of the servers' documentation and sources, shortened.
func TestDetect(t *testing.T) {
	t.Parallel()
	const openAI = `{"object":"list","data":[{"id":"m","object":"model","owned_by":"OWNER"}]}`
	owned := func(owner string) fake {
		return fake{"GET /v1/models": {200, strings.Replace(openAI, "OWNER", owner, 1)}}
	}
	tests := []struct {
		name   string
		server fake
		want   string
		err    error
		says   string
	}{
		{"triton", fake{"GET /v2": {200, `{"name":"triton","version":"2.50.0","extensions":["classification"]}`}}, "triton", nil, ""},
		{"another server of the protocol", fake{"GET /v2": {200, `{"name":"mlserver","version":"1.6.1","extensions":[]}`}}, "oip", nil, ""},
		{"tensorflow serving", fake{"GET /v2": {404, `{ "error": "Malformed request: GET /v2" }`}}, "tfserving", nil, ""},
		{"torchserve", fake{"GET /v2": {404, `{"code": 404,"type": "ResourceNotFoundException","message": "Requested resource is not found, please refer to API document."}`}}, "torchserve", nil, ""},
		{"ollama", fake{"GET /api/version": {200, `{"version":"0.12.3"}`}, "GET /v1/models": {200, strings.Replace(openAI, "OWNER", "library", 1)}}, "ollama", nil, ""},
		{"tgi", fake{"GET /info": {200, `{"model_id":"m","model_sha":"abc","max_input_tokens":1024,"max_total_tokens":2048,"router":"text-generation-router"}`}, "GET /v1/models": {200, strings.Replace(openAI, "OWNER", "m", 1)}}, "tgi", nil, ""},
		{"tei", fake{"GET /info": {200, `{"model_id":"m","model_sha":"abc","model_type":{"embedding":{"pooling":"cls"}},"max_input_length":512,"max_client_batch_size":32}`}}, "tei", nil, ""},
		{"vllm", owned("vllm"), "vllm", nil, ""},
		{"sglang", owned("sglang"), "sglang", nil, ""},
		{"llama.cpp", owned("llamacpp"), "llamacpp", nil, ""},
		{"another one of the OpenAI API", owned("somebody"), "openai", nil, ""},
		{"fastapi", fake{"GET /openapi.json": {200, `{"openapi":"3.1.0","info":{"title":"FastAPI"}}`}}, "http", nil, ""},
		{"llama.cpp loading", fake{"GET /v2": {503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`}}, "", backend.ErrNotYet, "Loading model"},
		{"an app that answers anything", fake{"GET /v2": {200, `{"message":"hello"}`}, "GET /v1/models": {200, `{"message":"hello"}`}, "GET /info": {200, `{"message":"hello"}`}, "GET /api/version": {200, `{"message":"hello","version":"1"}`}}, "", backend.ErrNotRecognised, "hello"},
		{"a page", fake{"GET /v2": {200, "<html>"}}, "", backend.ErrNotRecognised, "html"},
		{"no such page", fake{"GET /v2": {404, "nothing"}}, "", backend.ErrNotRecognised, "nothing"},
		{"loading", fake{"GET /v2": {503, "loading"}}, "", backend.ErrNotYet, "loading"},
		{"forbidden", fake{"GET /v2": {403, "who?"}}, "", backend.ErrCredentialsRefused, "who?"},
		{"vllm with a key that we lack", fake{"GET /v1/models": {401, "key?"}, "GET /openapi.json": {200, `{"openapi":"3.1.0"}`}}, "", backend.ErrCredentialsRefused, "key?"},
		{"forbidden beyond the first question", fake{"GET /v1/models": {401, "key?"}}, "", backend.ErrCredentialsRefused, "key?"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, test.server, backend.ClientSettings{})
			dialect, err := backend.Detect(t.Context(), client, backend.Options{})
			if test.err != nil {
				if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v, expected %v that says %q", err, test.err, test.says)
				}

				return
			}
			if err != nil || dialect.Name() != test.want {
				t.Errorf("got %v, %v", dialect, err)
			}
		})
	}
}

// TestDetectNeedsASampleToGuess has a server that answers like none that is known.
func TestDetectNeedsASampleToGuess(t *testing.T) {
	t.Parallel()
	client := serve(t, fake{"GET /": {200, "hello"}}, backend.ClientSettings{})
	if _, err := backend.Detect(t.Context(), client, backend.Options{}); !errors.Is(err, backend.ErrNotRecognised) || !strings.Contains(err.Error(), "backend.type") {
		t.Errorf("without a sample: got %v", err)
	}
	dialect, err := backend.Detect(t.Context(), client, backend.Options{Sample: &backend.Sample{Method: "POST", Path: "/predict"}})
	if err != nil || dialect.Name() != "http" {
		t.Errorf("with a sample: got %v, %v", dialect, err)
	}
}

func TestEveryServerTypeIsMadeByItsName(t *testing.T) {
	t.Parallel()
	client := serve(t, fake{}, backend.ClientSettings{})
	for _, name := range backend.Names() {
		dialect, err := backend.New(name, client, backend.Options{})
		if err != nil || dialect.Name() != name {
			t.Errorf("%s: got %v, %v", name, dialect, err)
		}
	}
	if _, err := backend.New("nonsense", client, backend.Options{}); err == nil || !strings.Contains(err.Error(), "vllm") {
		t.Errorf("got %v, expected the names that there are", err)
	}
	axes, err := backend.Takes("vllm")
	if err != nil || !slices.Contains(axes, backend.AxisInputTokens) || slices.Contains(axes, backend.AxisBatch) {
		t.Errorf("vllm takes %v, %v", axes, err)
	}
}

func TestPathsOfAnUnknownServer(t *testing.T) {
	t.Parallel()
	var paths backend.Paths = backend.AnyPaths{}
	for _, path := range []string{"/sleep", "/v2/repository/models/m/unload", "/api/delete", "/models/m", "/update_weights_from_disk", "//x/../sleep"} {
		if !paths.ControlPath(path) {
			t.Errorf("%s may change the server, whatever it is", path)
		}
	}
	for _, path := range []string{"/", "/predict", "/v1/chat/completions", "/v2/models/m/infer", "/api/generate", "/v1/models/m:predict"} {
		_, ready := paths.ReadyPath(path)
		if paths.ControlPath(path) || paths.LivePath(path) || ready {
			t.Errorf("%s carries requests", path)
		}
	}
	if _, ok := paths.ReadyPath("/health"); !ok || !paths.LivePath("/v2/health/live") {
		t.Error("ready and live paths are not known")
	}
}
