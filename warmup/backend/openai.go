package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// OpenAI speaks the API that most servers of language models imitate, and promises no more than that API does. From documentation.
//
//	ready        GET /v1/models names the model; 401 and 403 are refused credentials, everything else but 200 is "not yet"
//	models       those of GET /v1/models; a model with a parent is an adapter, which is warmed only when it is named
//	request      POST /v1/completions, /v1/chat/completions or /v1/embeddings; prompts are random letters, of about the length asked for
//	streaming    server-sent events that end with [DONE]
//	workers      not told
//	identity     not told
//	live, ready  no path is known
//	control      none is known
//	busy         429, 503
type OpenAI struct{ client *Client }

// NewOpenAI returns the dialect of the server that client speaks to.
func NewOpenAI(client *Client) *OpenAI { return &OpenAI{client: client} }

// Name implements [Dialect].
func (*OpenAI) Name() string { return "openai" }

// Up implements [Dialect].
func (o *OpenAI) Up(ctx context.Context) error { return up(ctx, o.client, "/v1/models") }

// Ready implements [Dialect].
func (o *OpenAI) Ready(ctx context.Context, model string) error { return listed(ctx, o.client, model) }

// Models implements [Dialect].
func (o *OpenAI) Models(ctx context.Context) ([]string, error) { return baseModels(ctx, o.client) }

// Describe implements [Dialect]. Chat comes first: it is what the API is used for.
func (o *OpenAI) Describe(ctx context.Context, model string) (Model, error) {
	described, err := describeListed(ctx, o.client, model)
	described.Endpoints = []Endpoint{EndpointChat, EndpointCompletions}

	return described, err
}

// Request implements [Dialect].
func (*OpenAI) Request(model Model, shape Shape, seed uint64) (Request, error) {
	return openAIRequest(model, shape, seed, nil)
}

// Check implements [Dialect].
func (*OpenAI) Check(act string, answer Answer, expect Expect) error {
	return checkOpenAI(act, answer, expect)
}

// ReadyPath implements [Dialect].
func (*OpenAI) ReadyPath(string) (string, bool) { return "", false }

// LivePath implements [Dialect].
func (*OpenAI) LivePath(string) bool { return false }

// ControlPath implements [Dialect].
func (*OpenAI) ControlPath(string) bool { return false }

// listedModel is one model of GET /v1/models, with what servers add to it.
type listedModel struct {
	ID      string `json:"id"`
	OwnedBy string `json:"owned_by"`
	// Parent is the base model of an adapter.
	Parent string `json:"parent"`
	Root   string `json:"root"`
	// Created is when the server made the entry, in seconds since 1970; some make it anew for each answer.
	Created  int64 `json:"created"`
	MaxModel int   `json:"max_model_len"`
	Meta     struct {
		Vocabulary int `json:"n_vocab"`
		Trained    int `json:"n_ctx_train"`
	} `json:"meta"`
}

func readModels(answer Answer) ([]listedModel, error) {
	var list struct {
		Data *[]listedModel `json:"data"`
	}
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, err
	}
	if list.Data == nil {
		return nil, errors.New("expected a list of models under data")
	}
	if slices.ContainsFunc(*list.Data, func(m listedModel) bool { return m.ID == "" }) {
		return nil, errors.New("a model under data has no id")
	}

	return *list.Data, nil
}

func askModels(ctx context.Context, client *Client) ([]listedModel, error) {
	const act = "list models: GET /v1/models"
	answer, err := client.control(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return nil, renamed(err, act)
	}
	if answer.Status != http.StatusOK {
		return nil, answered(act, answer)
	}
	list, err := readModels(answer)
	if err != nil {
		return nil, &Error{Act: act, Kind: ErrNotOffered, Status: answer.Status, Excerpt: excerpt(answer.Body), Err: err}
	}

	return list, nil
}

// up returns nil when anything at all is answered at path.
func up(ctx context.Context, client *Client, path string) error {
	_, err := client.control(ctx, http.MethodGet, path, nil)

	return err
}

// listed returns nil when the list of models names the model; "" asks for the list alone.
func listed(ctx context.Context, client *Client, model string) error {
	_, err := findListed(ctx, client, model)

	return err
}

func findListed(ctx context.Context, client *Client, model string) (listedModel, error) {
	list, err := askModels(ctx, client)
	if err != nil || model == "" {
		return listedModel{}, err
	}
	names := make([]string, 0, len(list))
	for _, m := range list {
		if m.ID == model {
			return m, nil
		}
		names = append(names, m.ID)
	}

	return listedModel{}, &Error{Act: "find " + model, Kind: ErrNotYet, Err: fmt.Errorf("the server names %s", orNone(names))}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no model"
	}

	return strings.Join(names[:min(len(names), 10)], ", ")
}

func baseModels(ctx context.Context, client *Client) ([]string, error) {
	list, err := askModels(ctx, client)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, model := range list {
		if model.Parent == "" && !slices.Contains(names, model.ID) {
			names = append(names, model.ID)
		}
	}

	return names, nil
}

// describeListed tells what the list says of a model, and which adapters stand on it.
func describeListed(ctx context.Context, client *Client, name string) (Model, error) {
	list, err := askModels(ctx, client)
	if err != nil {
		return Model{}, renamed(err, "describe "+name)
	}
	described := Model{Name: name, Takes: promptAxes()}
	for _, model := range list {
		switch name {
		case model.ID:
			described.MaxTokens, described.Vocabulary = model.MaxModel, model.Meta.Vocabulary
		case model.Parent:
			described.Adapters = append(described.Adapters, model.ID)
		}
	}

	return described, nil
}

// openAIRequest makes a request of the API; extra keys go along with prompts.
func openAIRequest(model Model, shape Shape, seed uint64, extra map[string]any) (Request, error) {
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}
	p := newPrompt(model, shape, seed)
	body := map[string]any{"model": p.name()}
	if shape.Endpoint == EndpointEmbeddings {
		body["input"] = p.text()

		return post("/v1/embeddings", false, body)
	}
	body["max_tokens"], body["temperature"], body["stream"] = max(shape.OutputTokens, 1), shape.Temperature, shape.Stream
	maps.Copy(body, extra)
	switch shape.Endpoint { //nolint:exhaustive // embeddings are dealt with above
	case EndpointCompletions:
		if shape.Image {
			return Request{}, unfit(model, shape, "completions take no image, chat does")
		}
		if _, given := body["prompt"]; !given {
			body["prompt"] = p.text()
		}

		return post("/v1/completions", shape.Stream, body)
	case EndpointChat:
		delete(body, "prompt")
		content := any(p.text())
		if shape.Image {
			picture, err := p.picture()
			if err != nil {
				return Request{}, err
			}
			content = []any{
				map[string]any{"type": "text", "text": content},
				map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:image/png;base64," + picture}},
			}
		}
		body["messages"] = []any{map[string]any{"role": "user", "content": content}}

		return post("/v1/chat/completions", shape.Stream, body)
	default:
		return Request{}, unfit(model, shape, "this server type has no endpoint of its own, expected completions, chat or embeddings")
	}
}

// checkOpenAI judges answers of all the endpoints: choices that are there, vectors that are finite, streams that end.
func checkOpenAI(act string, answer Answer, expect Expect) error {
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
			Choices []json.RawMessage `json:"choices"`
			Data    []struct {
				Embedding json.RawMessage `json:"embedding"`
			} `json:"data"`
		}
		if err := json.Unmarshal(read.body, &body); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if len(body.Choices) == 0 && len(body.Data) == 0 {
			return errors.New("the answer holds neither choices nor data")
		}
		for _, item := range body.Data {
			if err := checkVector(item.Embedding, read.odd, expect.Finite); err != nil {
				return err
			}
		}

		return nil
	})
}

// checkVector wants numbers, finite ones if that is expected. Text is a vector in another coding, of which nothing can be said.
func checkVector(data json.RawMessage, odd, finite bool) error {
	count, problem := leaves(data, odd)
	switch {
	case count == 0:
		return errors.New("a vector is empty")
	case problem != "" && finite:
		return fmt.Errorf("a vector holds %s", problem)
	default:
		return nil
	}
}
