package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Ollama speaks to Ollama. From its documentation and source.
//
//	ready        GET /api/tags names the model. GET / is 200 as soon as the server runs, whatever is loaded
//	models       the loaded ones, GET /api/ps; at the start there are none, so the model has to be named in the configuration
//	request      POST /api/generate, which loads the model; prompts are random letters, raw, so that no template is put around them
//	streaming    JSON lines; the last one has "done": true
//	workers      one process
//	unloads      five minutes after the last request, unless told otherwise; GET /api/ps shows it and loads nothing
//	identity     digest of the model, GET /api/tags
//	live path    /, /api/version
//	control      pull, push, create, copy, delete, blobs
//	busy         503 (queue full)
type Ollama struct{ client *Client }

// NewOllama returns the dialect of the server that client speaks to.
func NewOllama(client *Client) *Ollama { return &Ollama{client: client} }

// Name implements [Dialect].
func (*Ollama) Name() string { return "ollama" }

// Up implements [Dialect].
func (o *Ollama) Up(ctx context.Context) error { return up(ctx, o.client, "/api/version") }

type ollamaModel struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

func ollamaNames(list []ollamaModel) []string {
	names := make([]string, 0, len(list))
	for _, model := range list {
		names = append(names, model.Name)
	}

	return names
}

// Ready implements [Dialect].
func (o *Ollama) Ready(ctx context.Context, model string) error {
	if model == "" {
		_, err := o.list(ctx, "/api/tags")

		return err
	}
	_, found, list, err := o.find(ctx, "/api/tags", model)
	if err == nil && !found {
		err = &Error{Act: "find " + model, Kind: ErrNotYet, Err: fmt.Errorf("the server has %s", orNone(ollamaNames(list)))}
	}

	return err
}

// Models implements [Dialect].
func (o *Ollama) Models(ctx context.Context) ([]string, error) {
	loaded, err := o.list(ctx, "/api/ps")
	if err != nil || len(loaded) > 0 {
		return ollamaNames(loaded), err
	}
	listed, err := o.list(ctx, "/api/tags")
	if err != nil {
		return nil, err
	}

	return nil, &Error{
		Act: "find loaded models", Kind: ErrNotYet,
		Err: fmt.Errorf("none is loaded; name the one to load under models; the server has %s", orNone(ollamaNames(listed))),
	}
}

// Describe implements [Dialect]. Whatever the model was trained for, the server cuts prompts to the context it was loaded with, which it tells of loaded
// models only.
func (o *Ollama) Describe(ctx context.Context, model string) (Model, error) {
	if err := o.Ready(ctx, model); err != nil {
		return Model{}, renamed(err, "describe "+model)
	}

	return Model{Name: model, Takes: promptAxes(), Endpoints: []Endpoint{EndpointNative, EndpointChat}}, nil
}

// Request implements [Dialect].
func (*Ollama) Request(model Model, shape Shape, seed uint64) (Request, error) {
	if shape.Endpoint != EndpointNative {
		return openAIRequest(model, shape, seed, nil)
	}
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}
	p := newPrompt(model, shape, seed)
	body := map[string]any{
		"model": p.name(), "prompt": p.text(), "raw": true, "stream": shape.Stream,
		"options": map[string]any{"num_predict": max(shape.OutputTokens, 1), "temperature": shape.Temperature},
	}
	if shape.Image {
		picture, err := p.picture()
		if err != nil {
			return Request{}, err
		}
		body["images"] = []string{picture}
		delete(body, "raw") // a picture needs the template
	}

	return post("/api/generate", shape.Stream, body)
}

// Check implements [Dialect].
func (*Ollama) Check(act string, answer Answer, expect Expect) error {
	return expect.judge(act, answer, func(read content) error {
		var body struct {
			Done    bool              `json:"done"`
			Choices []json.RawMessage `json:"choices"`
			Data    []json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(read.last(), &body); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		switch {
		case read.streamed && !body.Done && !read.done:
			return errors.New(`the stream ended before "done": true`)
		case !read.streamed && !body.Done && len(body.Choices) == 0 && len(body.Data) == 0:
			return errors.New("the answer is not done")
		default:
			return nil
		}
	})
}

// Identity implements [Identifier].
func (o *Ollama) Identity(ctx context.Context, model string) (string, error) {
	found, _, _, err := o.find(ctx, "/api/tags", model)

	return found.Digest, err
}

// Loaded implements [Unloader].
func (o *Ollama) Loaded(ctx context.Context, model string) (bool, error) {
	_, found, _, err := o.find(ctx, "/api/ps", model)

	return found, err
}

// Workers implements [Crew].
func (*Ollama) Workers(context.Context, string) (int, error) { return 1, nil }

// ReadyPath implements [Dialect].
func (*Ollama) ReadyPath(string) (string, bool) { return "", false }

// LivePath implements [Dialect].
func (*Ollama) LivePath(decoded string) bool { return isOneOf(decoded, "", "api/version") }

// ControlPath implements [Dialect].
func (*Ollama) ControlPath(decoded string) bool {
	if isOneOf(decoded, "api/pull", "api/push", "api/create", "api/copy", "api/delete") {
		return true
	}

	return strings.HasPrefix(strings.TrimPrefix(decoded, "/"), "api/blobs/")
}

func (o *Ollama) list(ctx context.Context, path string) ([]ollamaModel, error) {
	act := "list models: GET " + path
	answer, err := o.client.control(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, renamed(err, act)
	}
	if answer.Status != http.StatusOK {
		return nil, answered(act, answer)
	}
	var list struct {
		Models []ollamaModel `json:"models"`
	}
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Excerpt: excerpt(answer.Body), Err: err}
	}

	return list.Models, nil
}

// find returns the model of that name; a name without a tag means the tag "latest".
func (o *Ollama) find(ctx context.Context, path, name string) (model ollamaModel, found bool, list []ollamaModel, err error) {
	list, err = o.list(ctx, path)
	at := slices.IndexFunc(list, func(m ollamaModel) bool {
		return m.Name == name || (!strings.Contains(name, ":") && m.Name == name+":latest")
	})
	if err != nil || at < 0 {
		return ollamaModel{}, false, list, err
	}

	return list[at], true, list, nil
}
