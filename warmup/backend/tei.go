package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// TEI speaks to text-embeddings-inference. From its documentation and source.
//
//	ready        GET /health: 200, 503; nothing listens before its own warm-up is done, which covers one batch on a GPU
//	models       the one of GET /info
//	request      by model_type of GET /info: POST /embed, /rerank or /predict; batches up to max_client_batch_size, inputs up to max_input_length
//	streaming    none
//	workers      one router
//	identity     model_id and model_sha
//	ready path   /health, /ping
//	control      none
//	busy         429, 503
type TEI struct{ client *Client }

// NewTEI returns the dialect of the server that client speaks to.
func NewTEI(client *Client) *TEI { return &TEI{client: client} }

// Name implements [Dialect].
func (*TEI) Name() string { return "tei" }

// Up implements [Dialect].
func (t *TEI) Up(ctx context.Context) error { return up(ctx, t.client, "/health") }

// Ready implements [Dialect].
func (t *TEI) Ready(ctx context.Context, model string) error {
	return healthy(ctx, t.client, model)
}

// Models implements [Dialect].
func (t *TEI) Models(ctx context.Context) ([]string, error) { return infoModel(ctx, t.client) }

// Describe implements [Dialect]. The Hint is the path that fits the type of the model.
func (t *TEI) Describe(ctx context.Context, model string) (Model, error) {
	info, err := askInfo(ctx, t.client)
	if err != nil {
		return Model{}, err
	}
	described := Model{
		Name: model, Takes: []Axis{AxisBatch, AxisInputTokens, AxisRepeated}, Batched: true, MaxBatch: info.MaxBatch, MaxInput: info.MaxLength,
	}
	for kind := range info.Type {
		switch strings.ToLower(kind) {
		case "embedding":
			described.Hint = "/embed"
		case "reranker":
			described.Hint = "/rerank"
		case "classifier":
			described.Hint = "/predict"
		default:
			described.NoRequest = fmt.Sprintf("its type is %q, for which no request is known", kind)
		}
	}
	if len(info.Type) == 0 {
		described.NoRequest = "its type is not told"
	}

	return described, nil
}

// Request implements [Dialect].
func (*TEI) Request(model Model, shape Shape, seed uint64) (Request, error) {
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}
	p := newPrompt(model, shape, seed)
	texts := make([]string, max(shape.Batch, 1))
	for i := range texts {
		texts[i] = p.text()
	}
	// A text that came out longer than meant is cut, not refused.
	body := map[string]any{"truncate": true}
	switch model.Hint {
	case "/rerank":
		body["query"], body["texts"] = "a", texts
	case "/predict":
		lists := make([][]string, len(texts)) // a plain list would be one text and its pair
		for i, text := range texts {
			lists[i] = []string{text}
		}
		body["inputs"] = lists
	default:
		body["inputs"] = texts
	}

	return post(model.Hint, false, body)
}

// Check implements [Dialect].
func (*TEI) Check(act string, answer Answer, expect Expect) error {
	return expect.judge(act, answer, func(read content) error {
		var list []json.RawMessage
		if err := json.Unmarshal(read.body, &list); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if len(list) == 0 {
			return errors.New("the answer is empty")
		}
		for _, item := range list {
			if len(item) > 0 && item[0] == '[' && !strings.Contains(string(item), "{") {
				if err := checkVector(item, read.odd, expect.Finite); err != nil {
					return err
				}
			}
		}

		return nil
	})
}

// Identity implements [Identifier].
func (t *TEI) Identity(ctx context.Context, _ string) (string, error) {
	return infoIdentity(ctx, t.client)
}

// Workers implements [Crew].
func (*TEI) Workers(context.Context, string) (int, error) { return 1, nil }

// ReadyPath implements [Dialect].
func (*TEI) ReadyPath(decoded string) (string, bool) { return "", isOneOf(decoded, "health", "ping") }

// LivePath implements [Dialect].
func (*TEI) LivePath(string) bool { return false }

// ControlPath implements [Dialect].
func (*TEI) ControlPath(string) bool { return false }
