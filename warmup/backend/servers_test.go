package backend_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// server is one server type as its documentation and source say it answers: a fake for each state, and what is to be made of it.
type server struct {
	name, model string
	// loading and ready are fakes in these states.
	loading, ready fake
	models         []string
	// shape is asked for; request is what goes out, and of its body the paths that matter.
	shape   backend.Shape
	request string
	body    map[string]string
	// good and bad are answers to it.
	good []string
	bad  map[string]string
	// ends are streams that are cut off, each with what is missing.
	paths map[string]string
}

const (
	sse       = "data: "
	chatChunk = `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}]}`
)

func events(payloads ...string) string {
	var text strings.Builder
	for _, payload := range payloads {
		text.WriteString(sse + payload + "\n\n")
	}

	return text.String()
}

func servers() []server {
	const list = `{"object":"list","data":[{"id":"m","object":"model","owned_by":"x","root":"/models/m","parent":null,"max_model_len":4096},` +
		`{"id":"lora","object":"model","owned_by":"x","root":"/lora","parent":"m"}]}`
	prompt := backend.Shape{InputTokens: 3, OutputTokens: 4, Temperature: 0.7, Stream: true}
	completions, chat := prompt, prompt
	completions.Endpoint, chat.Endpoint = backend.EndpointCompletions, backend.EndpointChat
	whole := `{"choices":[{"text":"a","finish_reason":"length"}]}`

	return []server{
		{
			name: "openai", model: "m",
			loading: fake{"GET /v1/models": {503, `{"error":"loading"}`}}, ready: fake{"GET /v1/models": {200, list}},
			models: []string{"m"}, shape: chat, request: "POST /v1/chat/completions",
			body: map[string]string{"model": "m", "max_tokens": "4", "stream": "true", "temperature": "0.7", "messages.0.role": "user"},
			good: []string{whole, events(chatChunk, chatChunk, "[DONE]"), `{"data":[{"embedding":[0.5,1]}]}`},
			bad: map[string]string{
				events(chatChunk):                              "ended without [DONE]",
				events("[DONE]"):                               "no token",
				events(`{"error":{"code":5}}`):                 "holds an error",
				`{"error":{"message":"oom"}}`:                  "oom",
				"event: error\n" + events(`{"message":"oom"}`): "oom",
				`{"choices":[]}`:                               "neither choices nor data",
				`{"data":[{"embedding":[0.5,NaN]}]}`:           "NaN",
			},
		},
		{
			name: "vllm", model: "m",
			loading: fake{"GET /health": {503, ""}, "GET /v1/models": {200, list}}, ready: fake{"GET /health": {200, ""}, "GET /v1/models": {200, list}},
			models: []string{"m"}, shape: completions, request: "POST /v1/completions",
			body: map[string]string{"model": "m", "max_tokens": "4", "min_tokens": "4", "ignore_eos": "true", "stream": "true"},
			good: []string{whole, events(`{"choices":[{"text":"a"}]}`, "[DONE]")},
			bad:  map[string]string{events(`{"choices":[{"text":"a"}]}`): "ended without [DONE]", events(`{"error":{"message":"EngineDeadError"}}`, "[DONE]"): "EngineDeadError"},
			paths: map[string]string{
				"/health": "ready", "/ping": "ready", "/sleep": "control", "/wake_up": "control", "/v1/unload_lora_adapter": "control",
				"/v1/completions": "", "/v1/models": "", "/is_sleeping": "",
			},
		},
		{
			name: "sglang", model: "m",
			loading: fake{"GET /health": {503, ""}, "GET /v1/models": {200, list}},
			ready:   fake{"GET /health": {200, ""}, "GET /v1/models": {200, list}, "GET /get_model_info": {200, `{"model_path":"m","is_generation":true}`}},
			models:  []string{"m"}, shape: prompt, request: "POST /generate",
			body:  map[string]string{"sampling_params.max_new_tokens": "4", "sampling_params.ignore_eos": "true", "stream": "true"},
			good:  []string{`{"text":"","meta_info":{}}`, events(`{"text":"a"}`, "[DONE]"), whole},
			bad:   map[string]string{events(`{"text":"a"}`): "ended without [DONE]", `{}`: "no text", events(`{"error":{"message":"oom"}}`): "oom"},
			paths: map[string]string{"/health_generate": "ready", "/flush_cache": "control", "/update_weights_from_disk": "control", "/generate": ""},
		},
		{
			name: "tgi", model: "org/m",
			loading: fake{"GET /health": {503, `{"error":"unhealthy","error_type":"healthcheck"}`}},
			ready:   fake{"GET /health": {200, ""}, "GET /info": {200, `{"model_id":"org/m","model_sha":"abc","max_input_tokens":1024,"max_total_tokens":2048}`}},
			models:  []string{"org/m"}, shape: prompt, request: "POST /generate_stream",
			body:  map[string]string{"parameters.max_new_tokens": "4", "parameters.do_sample": "true", "parameters.temperature": "0.7"},
			good:  []string{`{"generated_text":"a"}`, events(`{"index":1,"token":{"text":"a"},"generated_text":null}`, `{"index":2,"generated_text":"ab"}`), whole},
			bad:   map[string]string{events(`{"index":1,"token":{},"generated_text":null}`): "before its generated_text", events(`{"error":"Request failed","error_type":"generation"}`): "Request failed", `{}`: "no generated_text"},
			paths: map[string]string{"/health": "ready", "/generate": ""},
		},
		{
			name: "tei", model: "org/e",
			loading: fake{"GET /health": {503, `{"error":"unhealthy","error_type":"unhealthy"}`}},
			ready:   fake{"GET /health": {200, ""}, "GET /info": {200, `{"model_id":"org/e","model_type":{"embedding":{"pooling":"cls"}},"max_input_length":512,"max_client_batch_size":32}`}},
			models:  []string{"org/e"}, shape: backend.Shape{Batch: 2, InputTokens: 3}, request: "POST /embed",
			body: map[string]string{"truncate": "true"},
			good: []string{`[[0.1,0.2],[0.3,0.4]]`, `[{"index":0,"score":0.5}]`},
			bad:  map[string]string{`[[0.1,NaN]]`: "NaN", `[]`: "empty", `{"error":"overloaded"}`: "overloaded", `[[0.1,null]]`: "null"},
		},
		{
			name: "llamacpp", model: "m.gguf",
			loading: fake{"GET /health": {503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`}},
			ready: fake{
				"GET /health": {200, `{"status":"ok"}`}, "GET /props": {200, `{"default_generation_settings":{"n_ctx":256},"total_slots":4,"model_path":"/m.gguf","is_sleeping":false}`},
				"GET /v1/models": {200, `{"object":"list","data":[{"id":"m.gguf","owned_by":"llamacpp","meta":{"n_vocab":64,"n_ctx_train":512}}]}`},
			},
			models: []string{"m.gguf"}, shape: prompt, request: "POST /completion",
			body: map[string]string{"model": "m.gguf", "n_predict": "4", "cache_prompt": "false", "ignore_eos": "true", "stream": "true"},
			good: []string{`{"content":"a","stop":true}`, events(`{"content":"a","stop":false}`, `{"content":"","stop":true}`), events(chatChunk, "[DONE]")},
			bad:  map[string]string{events(`{"content":"a","stop":false}`): `before "stop": true`, "error: {\"code\":500}\n": "holds an error", `{"error":{"code":400}}`: "holds an error"},
			paths: map[string]string{
				"/health": "ready", "/v1/health": "ready", "/slots/0": "control", "/lora-adapters": "control", "/completion": "", "/slots": "", "/v1/models": "",
			},
		},
		{
			name: "ollama", model: "llama3",
			loading: fake{"GET /api/tags": {200, `{"models":[]}`}},
			ready:   fake{"GET /api/tags": {200, `{"models":[{"name":"llama3:latest","digest":"abc"}]}`}, "GET /api/ps": {200, `{"models":[{"name":"llama3:latest","digest":"abc"}]}`}},
			models:  []string{"llama3:latest"}, shape: prompt, request: "POST /api/generate",
			body: map[string]string{"model": "llama3", "raw": "true", "options.num_predict": "4", "stream": "true"},
			good: []string{`{"response":"a","done":true}`, "{\"response\":\"a\",\"done\":false}\n{\"done\":true,\"done_reason\":\"length\"}\n", whole},
			bad: map[string]string{
				"{\"response\":\"a\",\"done\":false}\n{\"response\":\"b\",\"done\":false}\n": `before "done": true`,
				"{\"response\":\"a\",\"done\":false}\n{\"error\":\"runner stopped\"}\n":      "runner stopped", `{"done":false}`: "not done",
			},
			paths: map[string]string{"/": "live", "/api/version": "live", "/api/delete": "control", "/api/blobs/sha256:abc": "control", "/api/generate": "", "/api/tags": ""},
		},
		{
			name: "triton", model: "m",
			loading: fake{"GET /v2/models/m/ready": {400, `{"error":"Model version not ready"}`}},
			ready: fake{
				"GET /v2/models/m/ready": {200, ""}, "GET /v2/models/m": {200, metadata}, "GET /v2/models/m/config": {200, `{"max_batch_size":8,"instance_group":[{"count":2,"gpus":[0,1]}]}`},
				"POST /v2/repository/index": {200, `[{"name":"m","version":"1","state":"READY"},{"name":"broken","state":"UNAVAILABLE","reason":"no backend"}]`},
			},
			models: []string{"m"}, shape: backend.Shape{Batch: 2}, request: "POST /v2/models/m/infer", body: map[string]string{"inputs.0.shape": "[2,3]"},
			good:  []string{`{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[0.5]}]}`},
			bad:   map[string]string{`{"error":"out of memory"}`: "out of memory", `{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[NaN]}]}`: "NaN"},
			paths: map[string]string{"/v2/health/ready": "ready", "/v2/health/live": "live", "/v2/repository/models/m/load": "control", "/v2/models/m/infer": ""},
		},
		{
			name: "tfserving", model: "half",
			loading: fake{"GET /v1/models/half": {200, `{"model_version_status":[{"version":"1","state":"LOADING","status":{"error_code":"OK"}}]}`}},
			ready: fake{
				"GET /v1/models/half": {200, `{"model_version_status":[{"version":"2","state":"AVAILABLE"},{"version":"1","state":"END"}]}`},
				"GET /v1/models/half/metadata": {200, `{"metadata":{"signature_def":{"signature_def":{"serving_default":{"inputs":` +
					`{"x":{"dtype":"DT_FLOAT","tensor_shape":{"dim":[{"size":"-1"},{"size":"2"}],"unknown_rank":false}}}}}}}}`},
			},
			shape: backend.Shape{Batch: 2}, request: "POST /v1/models/half:predict", body: map[string]string{"signature_name": "serving_default"},
			good:  []string{`{"predictions":[[0.5],[0.5]]}`, `{"outputs":{"y":1}}`},
			bad:   map[string]string{`{"error":"oom"}`: "oom", `{"predictions":[NaN]}`: "NaN", `{}`: "neither predictions nor outputs"},
			paths: map[string]string{"/v1/models/half": "ready", "/v1/models/half/versions/2": "ready", "/v1/models/half:predict": "", "/v1/models/half/versions/2:predict": "", "/v1/models/half/metadata": ""},
		},
	}
}

// TestServers asks each server type's fake everything that the engine asks.
func TestServers(t *testing.T) {
	t.Parallel()
	for _, test := range servers() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			speak := func(answers fake) backend.Dialect {
				dialect, err := backend.New(test.name, serve(t, answers, backend.ClientSettings{}), backend.Options{})
				if err != nil {
					t.Fatal(err)
				}

				return dialect
			}
			if err := speak(test.loading).Ready(t.Context(), test.model); !errors.Is(err, backend.ErrNotYet) {
				t.Errorf("loading: got %v, expected not yet", err)
			}
			if err := speak(fake{}).Ready(t.Context(), test.model); !errors.Is(err, backend.ErrNotYet) {
				t.Errorf("all is 404: got %v, expected not yet", err)
			}
			dialect := speak(test.ready)
			if err := dialect.Ready(t.Context(), test.model); err != nil {
				t.Errorf("ready: %v", err)
			}
			refusing := fake{}
			for path := range test.ready {
				refusing[path] = reply{http.StatusUnauthorized, "key?"}
			}
			if err := speak(refusing).Ready(t.Context(), test.model); !errors.Is(err, backend.ErrCredentialsRefused) {
				t.Errorf("401: got %v, expected refused credentials", err)
			}
			models, err := dialect.Models(t.Context())
			if !slices.Equal(models, test.models) || (test.models == nil) != errors.Is(err, backend.ErrNotOffered) {
				t.Errorf("models %v, %v; expected %v", models, err, test.models)
			}
			checkRequest(t, dialect, test)
			checkAnswers(t, dialect, test)
			for path, want := range test.paths {
				got := ""
				if _, ready := dialect.ReadyPath(path); ready {
					got = "ready"
				} else if dialect.LivePath(path) {
					got = "live"
				} else if dialect.ControlPath(path) {
					got = "control"
				}
				if got != want {
					t.Errorf("%s is %q, expected %q", path, got, want)
				}
			}
			if by, ok := dialect.(backend.Identifier); ok {
				if identity, err := by.Identity(t.Context(), test.model); err != nil || identity == "" {
					t.Errorf("identity %q, %v", identity, err)
				}
			}
			if by, ok := dialect.(backend.Crew); ok {
				if workers, err := by.Workers(t.Context(), test.model); err != nil || workers < 1 {
					t.Errorf("%d workers, %v", workers, err)
				}
			}
		})
	}
}

func checkRequest(t *testing.T, dialect backend.Dialect, test server) {
	t.Helper()
	model, err := dialect.Describe(t.Context(), test.model)
	if err != nil {
		t.Fatalf("describe: %v", err)
	}
	takes, err := backend.Takes(test.name)
	if err != nil || slices.ContainsFunc(model.Takes, func(a backend.Axis) bool { return !slices.Contains(takes, a) }) {
		t.Errorf("the model takes %v, the server type %v, %v", model.Takes, takes, err)
	}
	seen := map[string]bool{}
	for seed := range uint64(10) {
		request, err := dialect.Request(model, test.shape, seed)
		if err != nil {
			t.Fatal(err)
		}
		if got := request.Method + " " + request.Path; got != test.request {
			t.Fatalf("request %s, expected %s", got, test.request)
		}
		if request.Streams != test.shape.Stream {
			t.Errorf("streams: %v", request.Streams)
		}
		if !json.Valid(request.Body) {
			t.Fatalf("the body is no JSON: %s", request.Body)
		}
		// A request is an answer to nobody, but it can be held against the same paths.
		err = dialect.Check("look at", backend.Answer{Status: http.StatusAccepted, Body: request.Body}, backend.Expect{Status: http.StatusAccepted, JSON: test.body})
		if err != nil {
			t.Errorf("%v in %s", err, request.Body)
		}
		seen[string(request.Body)] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d of 10 requests differ", len(seen))
	}
	if test.shape.InputTokens == 0 || test.shape.Batch > 0 {
		return
	}
	repeated := test.shape
	repeated.Repeated = true
	first, _ := dialect.Request(model, repeated, 1)
	second, _ := dialect.Request(model, repeated, 2)
	if string(first.Body) != string(second.Body) {
		t.Error("repeated prompts differ")
	}
}

func checkAnswers(t *testing.T, dialect backend.Dialect, test server) {
	t.Helper()
	for _, body := range test.good {
		if err := dialect.Check("infer", backend.Answer{Status: 200, Body: []byte(body)}, backend.Expect{Finite: true}); err != nil {
			t.Errorf("%q: %v", body, err)
		}
	}
	for body, says := range test.bad {
		err := dialect.Check("infer", backend.Answer{Status: 200, Body: []byte(body)}, backend.Expect{Finite: true})
		if !errors.Is(err, backend.ErrBadAnswer) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, expected one that says %q", body, err, says)
		}
	}
	for status, want := range map[int]error{429: backend.ErrBusy, 503: backend.ErrBusy, 400: backend.ErrRequestRefused, 500: backend.ErrBadAnswer, 403: backend.ErrCredentialsRefused} {
		if err := dialect.Check("infer", backend.Answer{Status: status}, backend.Expect{}); !errors.Is(err, want) {
			t.Errorf("%d: got %v, expected %v", status, err, want)
		}
	}
}
