package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// LlamaCPP speaks to llama.cpp's llama-server. From its documentation and source, and tried against build 11434.
//
//	ready        GET /health: 503 "Loading model", then 200
//	models       the one of GET /v1/models
//	request      POST /completion with token ids from the middle of the vocabulary, no prompt cache, ignore_eos; chat, whose template may be missing,
//	             is tried and may be refused
//	streaming    server-sent events; the last one has "stop": true
//	workers      one process; its slots (total_slots of GET /props) are what runs at once
//	asleep       GET /props, is_sleeping, which does not wake it (--sleep-idle-seconds)
//	identity     model_path of GET /props
//	ready path   /health, /v1/health
//	router       one that was started without a model has several, each in a process of its own that starts when somebody asks for that model. It says that it
//	             is ready before it has any; so each question about a model names it, and only those of the warm-up itself load it
//	control      saving and restoring slots, adapters, loading and unloading models
//	busy         503 for want of a slot
type LlamaCPP struct{ client *Client }

// NewLlamaCPP returns the dialect of the server that client speaks to.
func NewLlamaCPP(client *Client) *LlamaCPP { return &LlamaCPP{client: client} }

// Name implements [Dialect].
func (*LlamaCPP) Name() string { return "llamacpp" }

// Up implements [Dialect].
func (l *LlamaCPP) Up(ctx context.Context) error { return up(ctx, l.client, "/health") }

// Ready implements [Dialect].
func (l *LlamaCPP) Ready(ctx context.Context, model string) error {
	return healthy(ctx, l.client, model)
}

// Models implements [Dialect].
func (l *LlamaCPP) Models(ctx context.Context) ([]string, error) { return baseModels(ctx, l.client) }

type llamaProps struct {
	Slots    int    `json:"total_slots"`
	Path     string `json:"model_path"`
	Sleeping bool   `json:"is_sleeping"`
	Defaults struct {
		Context int `json:"n_ctx"`
	} `json:"default_generation_settings"`
}

// Describe implements [Dialect]. The context of a slot bounds what one request may hold.
func (l *LlamaCPP) Describe(ctx context.Context, model string) (Model, error) {
	// A router lists the size of a vocabulary only once it has loaded the model.
	props, err := l.props(ctx, model, true)
	if err != nil {
		return Model{}, err
	}
	described, err := describeListed(ctx, l.client, model)
	if err != nil {
		return described, err
	}
	described.Endpoints = []Endpoint{EndpointNative, EndpointChat}
	// Slots may share one cache, which then is as large as each of them is said to be; whether they do is not told.
	described.MaxTokens, described.MaxTogether = props.Defaults.Context, props.Defaults.Context

	return described, nil
}

// Request implements [Dialect].
func (*LlamaCPP) Request(model Model, shape Shape, seed uint64) (Request, error) {
	extra := map[string]any{"cache_prompt": shape.Repeated, "ignore_eos": true}
	if shape.Endpoint != EndpointNative {
		return openAIRequest(model, shape, seed, extra)
	}
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}
	switch {
	case shape.Image:
		return Request{}, unfit(model, shape, "its own endpoint takes no image that fits every model, chat does")
	case shape.Adapter != "":
		return Request{}, unfit(model, shape, "its adapters have numbers and no names")
	}
	p := newPrompt(model, shape, seed)
	extra["model"], extra["prompt"] = p.name(), p.tokens()
	extra["n_predict"], extra["temperature"], extra["stream"] = max(shape.OutputTokens, 1), shape.Temperature, shape.Stream

	return post("/completion", shape.Stream, extra)
}

// Check implements [Dialect].
func (*LlamaCPP) Check(act string, answer Answer, expect Expect) error {
	return expect.judge(act, answer, func(read content) error {
		var body struct {
			Content *string           `json:"content"`
			Stop    bool              `json:"stop"`
			Choices []json.RawMessage `json:"choices"`
			Data    []json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(read.last(), &body); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		switch {
		case read.streamed && !body.Stop && !read.done:
			return errors.New(`the stream ended before "stop": true`)
		case !read.streamed && body.Content == nil && len(body.Choices) == 0 && len(body.Data) == 0:
			return errors.New("the answer holds no content")
		default:
			return nil
		}
	})
}

// Identity implements [Identifier].
func (l *LlamaCPP) Identity(ctx context.Context, model string) (string, error) {
	props, err := l.props(ctx, model, false)

	return props.Path, err
}

// Loaded implements [Unloader]. A router refuses to tell the properties of a model that it has not loaded.
func (l *LlamaCPP) Loaded(ctx context.Context, model string) (bool, error) {
	props, err := l.props(ctx, model, false)
	if failed, ok := errors.AsType[*Error](err); ok && failed.Status == http.StatusBadRequest {
		return false, nil
	}

	return !props.Sleeping, err
}

// Workers implements [Crew]. Each slot has a cache and a place in the batch of its own.
func (l *LlamaCPP) Workers(ctx context.Context, model string) (int, error) {
	props, err := l.props(ctx, model, true)

	return props.Slots, err
}

// ReadyPath implements [Dialect].
func (*LlamaCPP) ReadyPath(decoded string) (string, bool) {
	return "", isOneOf(decoded, "health", "v1/health")
}

// LivePath implements [Dialect].
func (*LlamaCPP) LivePath(string) bool { return false }

// ControlPath implements [Dialect]. /props is not one: the user interface that comes with the server reads it, and it changes nothing unless the server was started with --props.
func (*LlamaCPP) ControlPath(decoded string) bool {
	clean := strings.Trim(path.Clean("/"+decoded), "/")

	return strings.HasPrefix(clean, "slots/") || isOneOf(decoded, "lora-adapters", "models/load", "models/unload")
}

// props asks for the properties of a model. A router may load it for that; a server of one model takes no notice of the query.
func (l *LlamaCPP) props(ctx context.Context, model string, load bool) (props llamaProps, err error) {
	const act = "read GET /props"
	query := url.Values{"model": {model}, "autoload": {strconv.FormatBool(load)}}
	answer, err := l.client.control(ctx, http.MethodGet, "/props?"+query.Encode(), nil)
	if err != nil {
		return props, renamed(err, act)
	}
	if answer.Status != http.StatusOK {
		return props, answered(act, answer)
	}
	if err := json.Unmarshal(answer.Body, &props); err != nil {
		return props, &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Excerpt: excerpt(answer.Body), Err: err}
	}

	return props, nil
}
