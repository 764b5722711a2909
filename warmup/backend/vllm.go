package backend

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
)

// VLLM speaks to vLLM. From its documentation and source.
//
//	ready        GET /v1/models names the model; nothing listens before the engine is built. /health is 200 as soon as the engine runs and does no
//	             GPU work, 503 once the engine is dead
//	asleep       GET /is_sleeping, where development mode offers it
//	models       those of GET /v1/models without a parent; the others are adapters
//	request      POST /v1/completions with token ids, so that lengths are exact; ignore_eos, so that the answer is as long as asked for; chat, whose
//	             template needs warming too, is tried and may be refused
//	streaming    server-sent events that end with [DONE]
//	workers      one front end, unless it was started with --api-server-count, which it does not tell
//	identity     root of the model: the path or repository of its weights
//	ready path   /health, /ping
//	control      /sleep, /wake_up, adapters, caches, weights, profiles, collective_rpc, scale_elastic_ep, pause, resume
//	busy         429, 503
type VLLM struct{ client *Client }

// NewVLLM returns the dialect of the server that client speaks to.
func NewVLLM(client *Client) *VLLM { return &VLLM{client: client} }

// Name implements [Dialect].
func (*VLLM) Name() string { return "vllm" }

// Up implements [Dialect].
func (v *VLLM) Up(ctx context.Context) error { return up(ctx, v.client, "/health") }

// Ready implements [Dialect]. An engine that sleeps is not ready, though it lists its models.
func (v *VLLM) Ready(ctx context.Context, model string) error {
	if err := healthy(ctx, v.client, model); err != nil {
		return err
	}

	if err := listed(ctx, v.client, model); err != nil {
		return err
	}

	return v.Awake(ctx)
}

// Awake implements [Sleeper].
func (v *VLLM) Awake(ctx context.Context) error { return asleep(ctx, v.client, "/is_sleeping") }

// asleep is ErrNotYet when the server says that it sleeps. Most do not offer the question.
func asleep(ctx context.Context, client *Client, path string) error {
	act := "ask whether the server sleeps: GET " + path
	answer, err := client.control(ctx, http.MethodGet, path, nil)
	if err != nil {
		return renamed(err, act)
	}
	var said struct {
		Sleeping bool `json:"is_sleeping"`
	}
	if answer.Status == http.StatusOK && json.Unmarshal(answer.Body, &said) == nil && said.Sleeping {
		return &Error{Act: act, Kind: ErrNotYet, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	}

	return nil
}

// Models implements [Dialect].
func (v *VLLM) Models(ctx context.Context) ([]string, error) { return baseModels(ctx, v.client) }

// Describe implements [Dialect].
func (v *VLLM) Describe(ctx context.Context, model string) (Model, error) {
	described, err := describeListed(ctx, v.client, model)
	described.Endpoints = []Endpoint{EndpointCompletions, EndpointChat}

	return described, err
}

// Request implements [Dialect].
func (*VLLM) Request(model Model, shape Shape, seed uint64) (Request, error) {
	extra := map[string]any{"ignore_eos": true, "min_tokens": max(shape.OutputTokens, 1)}
	if shape.Endpoint == EndpointCompletions {
		extra["prompt"] = newPrompt(model, shape, seed).tokens()
	}

	return openAIRequest(model, shape, seed, extra)
}

// Check implements [Dialect].
func (*VLLM) Check(act string, answer Answer, expect Expect) error {
	return checkOpenAI(act, answer, expect)
}

// Identity implements [Identifier].
func (v *VLLM) Identity(ctx context.Context, model string) (string, error) {
	found, err := findListed(ctx, v.client, model)

	return found.Root, err
}

// Workers implements [Crew].
func (*VLLM) Workers(context.Context, string) (int, error) { return 1, nil }

// ReadyPath implements [Dialect].
func (*VLLM) ReadyPath(decoded string) (string, bool) { return "", isOneOf(decoded, "health", "ping") }

// LivePath implements [Dialect].
func (*VLLM) LivePath(string) bool { return false }

// ControlPath implements [Dialect].
func (*VLLM) ControlPath(decoded string) bool {
	return isOneOf(decoded, "sleep", "wake_up", "v1/load_lora_adapter", "v1/unload_lora_adapter", "reset_prefix_cache", "reset_mm_cache",
		"reset_encoder_cache", "collective_rpc", "start_profile", "stop_profile", "scale_elastic_ep", "pause", "resume",
		"init_weight_transfer_engine", "update_weights")
}

// healthy asks /health, which says by 200 that the server is ready.
func healthy(ctx context.Context, client *Client, model string) error {
	act := "ask whether the server is ready: GET /health"
	if model != "" {
		act = "ask whether " + model + " is ready: GET /health"
	}
	answer, err := client.control(ctx, http.MethodGet, "/health", nil)
	if err != nil {
		return renamed(err, act)
	}
	if answer.Status != http.StatusOK {
		return answered(act, answer)
	}

	return nil
}

// isOneOf says whether a decoded path, as it stands or with its dots resolved, is one of those that follow, which are written without their first slash.
func isOneOf(decoded string, paths ...string) bool {
	return slices.Contains(paths, strings.Trim(path.Clean("/"+decoded), "/")) || slices.Contains(paths, strings.Trim(decoded, "/"))
}
