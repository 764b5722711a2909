package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// OIP speaks the Open Inference Protocol, version 2, over HTTP and gRPC: MLServer, KServe's servers, OpenVINO Model Server, and our own worker. What is more
// than the protocol is asked for and done without when it is not there. Tested against our own worker, the rest from documentation.
//
//	ready        GET /v2/models/M/ready: 200; 400 (MLServer, Triton), 404, 500, 503 and a 200 with "ready": false are "not yet"
//	models       POST /v2/repository/index: those in state READY, once none is LOADING; GET /v2/models (KServe). Others list none
//	request      POST /v2/models/M/infer, or ModelInfer over gRPC, made from the metadata; none for models that keep state
//	streaming    none
//	workers      not told (MLServer's parallel_workers)
//	identity     versions and platform in the metadata
//	live, ready  /v2/health/live; /v2/health/ready, /v2/models/M/ready
//	control      /v2/repository/…/load and /unload, and the gRPC methods of the same meaning
//	busy         429, 503
type OIP struct {
	client *Client
	// plain is true when the server said of itself that it has no model configuration to ask for.
	plain bool
}

// NewOIP returns the dialect of the server that client speaks to.
func NewOIP(client *Client) *OIP { return &OIP{client: client} }

// Name implements [Dialect].
func (o *OIP) Name() string { return "oip" }

// Up implements [Dialect].
func (o *OIP) Up(ctx context.Context) error {
	_, err := o.client.control(ctx, http.MethodGet, "/v2/health/live", nil)

	return err
}

// Ready implements [Dialect]. Servers say "not ready" by 400, 404, 500 and 503, and some by a 200 whose body says so.
func (o *OIP) Ready(ctx context.Context, model string) error {
	target := "/v2/health/ready"
	act := "ask whether the server is ready"
	if model != "" {
		target = modelPath(model) + "/ready"
		act = "ask whether " + model + " is ready"
	}
	answer, err := o.client.control(ctx, http.MethodGet, target, nil)
	if err != nil {
		return renamed(err, act)
	}
	if answer.Status != http.StatusOK {
		return answered(act, answer)
	}
	var said struct {
		Ready any `json:"ready"`
	}
	// A body that is no JSON says nothing: the status is the protocol's answer.
	if json.Unmarshal(answer.Body, &said) == nil && said.Ready != nil && strings.EqualFold(fmt.Sprint(said.Ready), "false") {
		return &Error{Act: act, Kind: ErrNotYet, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	}

	return nil
}

// Models implements [Dialect]. The protocol itself has no list; Triton's index is asked for those whose state is READY. As long as one is
// loading the list is not complete, which is ErrNotYet.
func (o *OIP) Models(ctx context.Context) ([]string, error) {
	const act = "list models: POST /v2/repository/index"
	answer, err := o.client.control(ctx, http.MethodPost, "/v2/repository/index", []byte("{}"))
	if err != nil {
		return nil, renamed(err, act)
	}
	switch answer.Status {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		if names := o.plainList(ctx); len(names) > 0 {
			return names, nil
		}

		return nil, &Error{Act: act, Kind: ErrNotOffered, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	default:
		return nil, answered(act, answer)
	}
	var index []struct {
		Name  string `json:"name"`
		State string `json:"state"`
	}
	if err := json.Unmarshal(answer.Body, &index); err != nil {
		return nil, &Error{Act: act, Kind: ErrNotOffered, Status: answer.Status, Excerpt: excerpt(answer.Body), Err: err}
	}
	var names []string
	seen := map[string]bool{}
	for _, model := range index {
		if model.State == "LOADING" {
			return nil, &Error{Act: act, Kind: ErrNotYet, Err: fmt.Errorf("model %s is loading", model.Name)}
		}
		// One entry for each version.
		if model.State == "READY" && model.Name != "" && !seen[model.Name] {
			seen[model.Name] = true
			names = append(names, model.Name)
		}
	}

	return names, nil
}

// Identity implements [Identifier].
func (o *OIP) Identity(ctx context.Context, model string) (string, error) {
	act := "read the version of " + model
	answer, err := o.client.control(ctx, http.MethodGet, modelPath(model), nil)
	if err != nil {
		return "", renamed(err, act)
	}
	if answer.Status != http.StatusOK {
		return "", answered(act, answer)
	}
	var metadata struct {
		Versions []string        `json:"versions"`
		Platform string          `json:"platform"`
		Inputs   json.RawMessage `json:"inputs"`
		Outputs  json.RawMessage `json:"outputs"`
	}
	if err := json.Unmarshal(answer.Body, &metadata); err != nil {
		return "", &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Excerpt: excerpt(answer.Body), Err: err}
	}
	slices.Sort(metadata.Versions)

	return fmt.Sprintf("versions %s of %s, %s to %s", strings.Join(metadata.Versions, ","), metadata.Platform, metadata.Inputs, metadata.Outputs), nil
}

// Describe implements [Dialect].
func (o *OIP) Describe(ctx context.Context, model string) (Model, error) {
	act := "describe " + model
	answer, err := o.client.control(ctx, http.MethodGet, modelPath(model), nil)
	if err != nil {
		return Model{}, renamed(err, act)
	}
	if answer.Status != http.StatusOK {
		return Model{}, answered(act, answer)
	}
	var metadata struct {
		Inputs  []Tensor `json:"inputs"`
		Outputs []Tensor `json:"outputs"`
	}
	if err := json.Unmarshal(answer.Body, &metadata); err != nil {
		return Model{}, &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Excerpt: excerpt(answer.Body), Err: err}
	}
	described := Model{Name: model, Inputs: metadata.Inputs, Outputs: metadata.Outputs, Takes: protocolAxes(), Batched: batched(metadata.Inputs)}
	if o.client.settings.GRPC.Address != "" { // users come that way, too, and its front end is cold by itself
		described.Endpoints = []Endpoint{EndpointHTTP, EndpointGRPC}
	}
	if len(metadata.Inputs) == 0 {
		described.NoRequest = "its metadata names no inputs"
	}
	if o.plain {
		return described, nil
	}
	if err := o.configure(ctx, &described); err != nil {
		return Model{}, err
	}

	return described, nil
}

// ReadyPath implements [Dialect].
func (o *OIP) ReadyPath(decoded string) (string, bool) {
	parts := segments(decoded)
	switch {
	case len(parts) == 3 && parts[0] == "v2" && parts[1] == "health" && parts[2] == "ready":
		return "", true
	case len(parts) == 4 && parts[0] == "v2" && parts[1] == "models" && parts[3] == "ready",
		len(parts) == 6 && parts[0] == "v2" && parts[1] == "models" && parts[3] == "versions" && parts[5] == "ready":
		return parts[2], true
	default:
		return "", false
	}
}

// LivePath implements [Dialect].
func (o *OIP) LivePath(decoded string) bool {
	return strings.Join(segments(decoded), "/") == "v2/health/live"
}

// ControlPath implements [Dialect]. A model's name may hold slashes once decoded, and Triton takes the name of a repository before "models", so only the ends
// of the path count; a path with dots is judged as it stands too, since servers that route before they decode take them for a part of the model's name.
func (o *OIP) ControlPath(decoded string) bool {
	const repository, methods = "/v2/repository/", "/inference.GRPCInferenceService/"
	switch clean := path.Clean("/" + decoded); clean {
	case methods + "RepositoryModelLoad", methods + "RepositoryModelUnload":
		return true
	default:
		begins := strings.HasPrefix(clean, repository) || strings.HasPrefix(decoded, repository)

		return begins && (strings.HasSuffix(clean, "/load") || strings.HasSuffix(clean, "/unload"))
	}
}

// configuration is what is read of Triton's model configuration.
type configuration struct {
	MaxBatchSize    int `json:"max_batch_size"`
	DynamicBatching struct {
		Preferred []int `json:"preferred_batch_size"`
	} `json:"dynamic_batching"`
	Sequences json.RawMessage `json:"sequence_batching"`
	Policy    struct {
		Decoupled bool `json:"decoupled"`
	} `json:"model_transaction_policy"`
	Instances []struct {
		Count int   `json:"count"`
		GPUs  []int `json:"gpus"`
	} `json:"instance_group"`
}

// configuration asks for it; where there is none it is empty.
func (o *OIP) configuration(ctx context.Context, model string) (config configuration, err error) {
	act := "read configuration of " + model
	answer, err := o.client.control(ctx, http.MethodGet, modelPath(model)+"/config", nil)
	if err != nil {
		return config, renamed(err, act)
	}
	if answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &config) != nil {
		return configuration{}, nil //nolint:nilerr // another server's idea of a configuration says nothing to us
	}

	return config, nil
}

// configure adds what Triton's model configuration says, where there is one.
func (o *OIP) configure(ctx context.Context, model *Model) error {
	config, err := o.configuration(ctx, model.Name)
	if err != nil {
		return err
	}
	if config.MaxBatchSize > 0 {
		model.MaxBatch, model.Batched = config.MaxBatchSize, true
		model.Preferred = config.DynamicBatching.Preferred
	}
	switch {
	case len(config.Sequences) > 0 && string(config.Sequences) != "null":
		model.NoRequest = "it keeps state between the requests of a sequence"
	case config.Policy.Decoupled:
		model.NoRequest = "it answers one request with any number of answers"
	}

	return nil
}

// segments returns the parts of a decoded path, dots and empty parts resolved as servers resolve them.
func segments(decoded string) []string {
	return strings.Split(strings.TrimPrefix(path.Clean("/"+decoded), "/"), "/")
}

func modelPath(model string) string { return "/v2/models/" + url.PathEscape(model) }

// batched says whether the first dimension of every input is left open, which is how a batch looks in metadata.
func batched(inputs []Tensor) bool {
	for _, input := range inputs {
		if len(input.Shape) == 0 || input.Shape[0] != -1 {
			return false
		}
	}

	return len(inputs) > 0
}

// answered is the error for an answer to a question about readiness or metadata that is not 200.
func answered(act string, answer Answer) error {
	failed := &Error{Act: act, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	switch status := answer.Status; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		failed.Kind = ErrCredentialsRefused
	case status == http.StatusBadRequest || status == http.StatusNotFound ||
		status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		failed.Kind = ErrNotYet
	}

	return failed
}

func renamed(err error, act string) error {
	if failed, ok := errors.AsType[*Error](err); ok {
		failed.Act = act
	}

	return err
}

// plainList asks KServe's Python server, which lists the models that it has loaded and has no index.
func (o *OIP) plainList(ctx context.Context) []string {
	answer, err := o.client.control(ctx, http.MethodGet, "/v2/models", nil)
	if err != nil || answer.Status != http.StatusOK {
		return nil
	}
	var list struct {
		Models []string `json:"models"`
	}
	if json.Unmarshal(answer.Body, &list) != nil {
		return nil
	}

	return list.Models
}
