package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// TGI speaks to text-generation-inference. From its documentation and source.
//
//	ready        GET /health: 200, 503; nothing listens before its own warm-up is done
//	models       the one of GET /info
//	request      POST /generate, or /generate_stream; prompts are random letters, of about the length asked for; an answer may end earlier
//	streaming    server-sent events; the last one holds generated_text
//	workers      one router
//	identity     model_id and model_sha
//	ready path   /health, /ping
//	control      none
//	busy         429 ("Model is overloaded"), 503
type TGI struct{ client *Client }

// NewTGI returns the dialect of the server that client speaks to.
func NewTGI(client *Client) *TGI { return &TGI{client: client} }

// Name implements [Dialect].
func (*TGI) Name() string { return "tgi" }

// Up implements [Dialect].
func (t *TGI) Up(ctx context.Context) error { return up(ctx, t.client, "/health") }

// Ready implements [Dialect].
func (t *TGI) Ready(ctx context.Context, model string) error {
	return healthy(ctx, t.client, model)
}

// serverInfo is what TGI and TEI say of themselves at /info.
type serverInfo struct {
	Model     string                     `json:"model_id"`
	Sha       string                     `json:"model_sha"`
	MaxInput  int                        `json:"max_input_tokens"`
	MaxLength int                        `json:"max_input_length"`
	MaxTotal  int                        `json:"max_total_tokens"`
	MaxBatch  int                        `json:"max_client_batch_size"`
	Type      map[string]json.RawMessage `json:"model_type"`
}

func askInfo(ctx context.Context, client *Client) (info serverInfo, err error) {
	const act = "read GET /info"
	answer, err := client.control(ctx, http.MethodGet, "/info", nil)
	if err != nil {
		return info, renamed(err, act)
	}
	if answer.Status != http.StatusOK {
		return info, answered(act, answer)
	}
	if err := json.Unmarshal(answer.Body, &info); err != nil {
		return info, &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Excerpt: excerpt(answer.Body), Err: err}
	}

	return info, nil
}

// Models implements [Dialect].
func (t *TGI) Models(ctx context.Context) ([]string, error) { return infoModel(ctx, t.client) }

func infoModel(ctx context.Context, client *Client) ([]string, error) {
	info, err := askInfo(ctx, client)
	if err != nil || info.Model == "" {
		return nil, err
	}

	return []string{info.Model}, nil
}

// Describe implements [Dialect].
func (t *TGI) Describe(ctx context.Context, model string) (Model, error) {
	info, err := askInfo(ctx, t.client)
	if err != nil {
		return Model{}, err
	}

	return Model{
		Name: model, Takes: promptAxes(), MaxTokens: info.MaxTotal, MaxInput: max(info.MaxInput, info.MaxLength),
		Endpoints: []Endpoint{EndpointNative, EndpointChat},
	}, nil
}

// Request implements [Dialect].
func (*TGI) Request(model Model, shape Shape, seed uint64) (Request, error) {
	if shape.Endpoint != EndpointNative {
		return openAIRequest(model, shape, seed, nil)
	}
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}
	if shape.Image {
		return Request{}, unfit(model, shape, "its own endpoint takes images inside the prompt only, chat does by themselves")
	}
	parameters := map[string]any{"max_new_tokens": max(shape.OutputTokens, 1), "do_sample": shape.Temperature > 0}
	if shape.Temperature > 0 { // 0 is refused: it must be strictly positive
		parameters["temperature"] = shape.Temperature
	}
	if shape.Adapter != "" {
		parameters["adapter_id"] = shape.Adapter
	}
	path := "/generate"
	if shape.Stream {
		path = "/generate_stream"
	}

	return post(path, shape.Stream, map[string]any{"inputs": newPrompt(model, shape, seed).text(), "parameters": parameters})
}

// Check implements [Dialect].
func (*TGI) Check(act string, answer Answer, expect Expect) error {
	return expect.judge(act, answer, func(read content) error {
		var body struct {
			Text    *string           `json:"generated_text"`
			Choices []json.RawMessage `json:"choices"`
		}
		if err := json.Unmarshal(read.last(), &body); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		switch {
		case read.streamed && body.Text == nil && !read.done:
			return errors.New("the stream ended before its generated_text")
		case !read.streamed && body.Text == nil && len(body.Choices) == 0:
			return errors.New("the answer holds no generated_text")
		default:
			return nil
		}
	})
}

// Identity implements [Identifier].
func (t *TGI) Identity(ctx context.Context, _ string) (string, error) {
	return infoIdentity(ctx, t.client)
}

func infoIdentity(ctx context.Context, client *Client) (string, error) {
	info, err := askInfo(ctx, client)
	if err != nil {
		return "", err
	}

	return info.Model + "@" + info.Sha, nil
}

// Workers implements [Crew].
func (*TGI) Workers(context.Context, string) (int, error) { return 1, nil }

// ReadyPath implements [Dialect].
func (*TGI) ReadyPath(decoded string) (string, bool) { return "", isOneOf(decoded, "health", "ping") }

// LivePath implements [Dialect].
func (*TGI) LivePath(string) bool { return false }

// ControlPath implements [Dialect].
func (*TGI) ControlPath(string) bool { return false }
