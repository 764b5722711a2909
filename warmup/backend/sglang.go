package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// SGLang speaks to SGLang. From its documentation and source.
//
//	ready        GET /health is 503 while the server starts or drains; /health_generate is not used: it sleeps a second before its first look
//	models       those of GET /v1/models without a parent
//	request      POST /generate with token ids; ignore_eos, so that the answer is as long as asked for; completions and chat where they are named
//	streaming    server-sent events that end with [DONE]
//	workers      one front end
//	identity     root of the model, where the list has it
//	ready path   /health, /health_generate, /ping
//	control      weights, adapters, caches, memory, profiles, pausing
//	busy         429, 503
type SGLang struct{ client *Client }

// NewSGLang returns the dialect of the server that client speaks to.
func NewSGLang(client *Client) *SGLang { return &SGLang{client: client} }

// Name implements [Dialect].
func (*SGLang) Name() string { return "sglang" }

// Up implements [Dialect].
func (s *SGLang) Up(ctx context.Context) error { return up(ctx, s.client, "/health") }

// Ready implements [Dialect].
func (s *SGLang) Ready(ctx context.Context, model string) error {
	if err := healthy(ctx, s.client, model); err != nil {
		return err
	}

	return listed(ctx, s.client, model)
}

// Models implements [Dialect].
func (s *SGLang) Models(ctx context.Context) ([]string, error) { return baseModels(ctx, s.client) }

// Describe implements [Dialect].
func (s *SGLang) Describe(ctx context.Context, model string) (Model, error) {
	described, err := describeListed(ctx, s.client, model)
	if err != nil {
		return described, err
	}
	described.Endpoints = []Endpoint{EndpointNative, EndpointChat}
	answer, err := s.client.control(ctx, http.MethodGet, "/get_model_info", nil)
	if err != nil {
		return Model{}, renamed(err, "describe "+model)
	}
	var said struct {
		Generates *bool `json:"is_generation"`
	}
	if answer.Status == http.StatusOK && json.Unmarshal(answer.Body, &said) == nil && said.Generates != nil && !*said.Generates {
		described.Endpoints = []Endpoint{EndpointEmbeddings}
		described.Takes = []Axis{AxisInputTokens, AxisRepeated, AxisEndpoint}
	}

	return described, nil
}

// Request implements [Dialect].
func (*SGLang) Request(model Model, shape Shape, seed uint64) (Request, error) {
	if shape.Endpoint != EndpointNative {
		return openAIRequest(model, shape, seed, map[string]any{"ignore_eos": true})
	}
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}
	if shape.Image {
		return Request{}, unfit(model, shape, "its own endpoint takes no image that fits every model, chat does")
	}
	p := newPrompt(model, shape, seed)
	body := map[string]any{
		"input_ids": p.tokens(), "stream": shape.Stream,
		"sampling_params": map[string]any{"temperature": shape.Temperature, "max_new_tokens": max(shape.OutputTokens, 1), "ignore_eos": true},
	}
	if shape.Adapter != "" {
		body["lora_path"] = shape.Adapter
	}

	return post("/generate", shape.Stream, body)
}

// Check implements [Dialect].
func (*SGLang) Check(act string, answer Answer, expect Expect) error {
	return expect.judge(act, answer, func(read content) error {
		if read.streamed {
			switch {
			case !read.done:
				return errors.New("the stream ended without [DONE]")
			case len(read.events) == 0:
				return errors.New("the stream holds no token")
			}

			return nil
		}
		var body struct {
			Text    *string           `json:"text"`
			Output  []int             `json:"output_ids"`
			Choices []json.RawMessage `json:"choices"`
			Data    []struct {
				Embedding json.RawMessage `json:"embedding"`
			} `json:"data"`
		}
		if err := json.Unmarshal(read.body, &body); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if body.Text == nil && len(body.Output) == 0 && len(body.Choices) == 0 && len(body.Data) == 0 {
			return errors.New("the answer holds no text")
		}
		for _, item := range body.Data {
			if err := checkVector(item.Embedding, read.odd, expect.Finite); err != nil {
				return err
			}
		}

		return nil
	})
}

// Identity implements [Identifier].
func (s *SGLang) Identity(ctx context.Context, model string) (string, error) {
	found, err := findListed(ctx, s.client, model)

	return found.Root, err
}

// Workers implements [Crew].
func (*SGLang) Workers(context.Context, string) (int, error) { return 1, nil }

// ReadyPath implements [Dialect].
func (*SGLang) ReadyPath(decoded string) (string, bool) {
	return "", isOneOf(decoded, "health", "health_generate", "ping")
}

// LivePath implements [Dialect].
func (*SGLang) LivePath(string) bool { return false }

// ControlPath implements [Dialect].
func (*SGLang) ControlPath(decoded string) bool {
	return isOneOf(decoded, "flush_cache", "update_weights_from_disk", "update_weights_from_tensor", "update_weights_from_distributed",
		"update_weights_from_ipc", "init_weights_update_group", "destroy_weights_update_group", "update_weight_version",
		"release_memory_occupation", "resume_memory_occupation", "load_lora_adapter", "unload_lora_adapter",
		"start_profile", "stop_profile", "pause_generation", "continue_generation", "set_internal_state", "configure_logging",
		"freeze_gc", "slow_down", "abort_request", "clear_hicache_storage_backend")
}
