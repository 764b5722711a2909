package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// TFServing speaks to TensorFlow Serving's REST API. From its documentation and source.
//
//	ready        GET /v1/models/M: a version in state AVAILABLE; START and LOADING are "not yet", 404 too. Its gRPC health service says nothing about
//	             models and is not asked
//	models       no list: they have to be named
//	request      POST /v1/models/M:predict, made from signature serving_default of GET /v1/models/M/metadata, as rows where the first dimension of
//	             every input is open, else as columns
//	streaming    none
//	workers      one process
//	identity     the available versions
//	ready path   /v1/models/M, /v1/models/M/versions/N
//	control      the gRPC method HandleReloadConfigRequest
//	busy         429, 503
type TFServing struct{ client *Client }

// NewTFServing returns the dialect of the server that client speaks to.
func NewTFServing(client *Client) *TFServing { return &TFServing{client: client} }

// Name implements [Dialect].
func (*TFServing) Name() string { return "tfserving" }

// Up implements [Dialect].
func (t *TFServing) Up(ctx context.Context) error { return up(ctx, t.client, "/v1/models/") }

// Ready implements [Dialect]. For the server as a whole, any answer is as much as it can say.
func (t *TFServing) Ready(ctx context.Context, model string) error {
	if model == "" {
		return t.Up(ctx)
	}
	_, err := t.available(ctx, model)

	return err
}

// Models implements [Dialect].
func (*TFServing) Models(context.Context) ([]string, error) {
	return nil, &Error{Act: "list models", Kind: ErrNotOffered}
}

// Describe implements [Dialect].
func (t *TFServing) Describe(ctx context.Context, model string) (Model, error) {
	act := "describe " + model
	answer, err := t.client.control(ctx, http.MethodGet, tfPath(model)+"/metadata", nil)
	if err != nil {
		return Model{}, renamed(err, act)
	}
	if answer.Status != http.StatusOK {
		return Model{}, answered(act, answer)
	}
	var said struct {
		Metadata struct {
			Signatures struct {
				ByName map[string]struct {
					Inputs map[string]tfTensor `json:"inputs"`
				} `json:"signature_def"`
			} `json:"signature_def"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(answer.Body, &said); err != nil {
		return Model{}, &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Excerpt: excerpt(answer.Body), Err: err}
	}
	described := Model{Name: model, Takes: tensorAxes()}
	signature, found := said.Metadata.Signatures.ByName["serving_default"]
	if !found || len(signature.Inputs) == 0 {
		described.NoRequest = "it has no signature serving_default with inputs"

		return described, nil
	}
	for _, name := range slices.Sorted(maps.Keys(signature.Inputs)) {
		tensor, err := signature.Inputs[name].tensor(name)
		if err != nil {
			described.NoRequest = err.Error()
		}
		described.Inputs = append(described.Inputs, tensor)
	}
	described.Batched = batched(described.Inputs)

	return described, nil
}

// tfTensor is an input in a signature. Sizes are numbers in quotes.
type tfTensor struct {
	Type  string `json:"dtype"`
	Shape struct {
		Dims []struct {
			Size string `json:"size"`
		} `json:"dim"`
		UnknownRank bool `json:"unknown_rank"`
	} `json:"tensor_shape"`
}

// tfTypes are the names of the protocol that the values are made by.
var tfTypes = map[string]string{
	"DT_BOOL": "BOOL", "DT_UINT8": "UINT8", "DT_UINT16": "UINT16", "DT_UINT32": "UINT32", "DT_UINT64": "UINT64",
	"DT_INT8": "INT8", "DT_INT16": "INT16", "DT_INT32": "INT32", "DT_INT64": "INT64",
	"DT_HALF": "FP16", "DT_BFLOAT16": "BF16", "DT_FLOAT": "FP32", "DT_DOUBLE": "FP64",
}

func (t tfTensor) tensor(name string) (Tensor, error) {
	made := Tensor{Name: name, Datatype: tfTypes[t.Type], Shape: []int64{}}
	switch {
	case t.Shape.UnknownRank:
		return made, fmt.Errorf("input %q has a shape of unknown rank", name)
	case t.Type == "DT_STRING":
		return made, fmt.Errorf("input %q is of type DT_STRING, which may be text, a picture or a serialised example", name)
	case made.Datatype == "":
		return made, fmt.Errorf("input %q is of type %q, for which no value is known", name, t.Type)
	}
	for _, dim := range t.Shape.Dims {
		size, err := strconv.ParseInt(dim.Size, 10, 64)
		if err != nil {
			return made, fmt.Errorf("input %q has a dimension of size %q", name, dim.Size)
		}
		made.Shape = append(made.Shape, size)
	}

	return made, nil
}

// Request implements [Dialect].
func (*TFServing) Request(model Model, shape Shape, seed uint64) (Request, error) {
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}
	if shape.Batch > 1 && !model.Batched {
		return Request{}, unfit(model, shape, "the model takes no batches")
	}
	total := int64(0)
	dims := make([][]int64, len(model.Inputs))
	for i, input := range model.Inputs {
		dims[i] = sizes(input, shape, model.Batched)
		count := elements(dims[i])
		if total += count * int64(widths[input.Datatype]); count > requestLimit || total > requestLimit {
			return Request{}, unfit(model, shape, fmt.Sprintf("its body would exceed %d bytes", requestLimit))
		}
	}
	random := rand.New(rand.NewPCG(seed, 0x70696c6f746c6974)) //nolint:gosec // values need to differ, not to be secret
	body := []byte(`{"signature_name":"serving_default","inputs":`)
	rows := 1
	if model.Batched {
		body, rows = []byte(`{"signature_name":"serving_default","instances":[`), max(shape.Batch, 1)
	}
	for row := range rows {
		if row > 0 {
			body = append(body, ',')
		}
		body = append(body, '{')
		for i, input := range model.Inputs {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(appendQuoted(body, input.Name), ':')
			inner := dims[i]
			if model.Batched {
				inner = inner[1:]
			}
			body = appendNested(body, inner, input.Datatype, random)
		}
		body = append(body, '}')
	}
	if model.Batched {
		body = append(body, ']')
	}

	return Request{Method: http.MethodPost, Path: tfPath(model.Name) + ":predict", Body: append(body, '}')}, nil
}

// appendNested writes values as lists within lists.
func appendNested(body []byte, dims []int64, datatype string, random *rand.Rand) []byte {
	if len(dims) == 0 {
		return appendValue(body, datatype, draw(datatype, random))
	}
	body = append(body, '[')
	for i := range dims[0] {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendNested(body, dims[1:], datatype, random)
	}

	return append(body, ']')
}

// Check implements [Dialect].
func (*TFServing) Check(act string, answer Answer, expect Expect) error {
	return expect.judge(act, answer, func(read content) error {
		var body struct {
			Predictions json.RawMessage `json:"predictions"`
			Outputs     json.RawMessage `json:"outputs"`
		}
		if err := json.Unmarshal(read.body, &body); err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if len(body.Predictions) == 0 && len(body.Outputs) == 0 {
			return errors.New("the answer holds neither predictions nor outputs")
		}
		if problem := oddIn(read); problem != "" && expect.Finite {
			return fmt.Errorf("the answer holds %s", problem)
		}

		return nil
	})
}

// Identity implements [Identifier].
func (t *TFServing) Identity(ctx context.Context, model string) (string, error) {
	versions, err := t.available(ctx, model)

	return strings.Join(versions, ","), err
}

// Workers implements [Crew].
func (*TFServing) Workers(context.Context, string) (int, error) { return 1, nil }

// ReadyPath implements [Dialect].
func (*TFServing) ReadyPath(decoded string) (string, bool) {
	parts := segments(decoded)
	if len(parts) < 3 || parts[0] != "v1" || parts[1] != "models" || strings.Contains(parts[len(parts)-1], ":") {
		return "", false
	}
	if len(parts) == 3 || (len(parts) == 5 && (parts[3] == "versions" || parts[3] == "labels")) {
		return parts[2], true
	}

	return "", false
}

// LivePath implements [Dialect].
func (*TFServing) LivePath(string) bool { return false }

// ControlPath implements [Dialect].
func (*TFServing) ControlPath(decoded string) bool {
	return isOneOf(decoded, "tensorflow.serving.ModelService/HandleReloadConfigRequest")
}

func tfPath(model string) string { return "/v1/models/" + url.PathEscape(model) }

// oddIn names the first value anywhere in a body that is no finite number.
func oddIn(read content) string {
	if !read.odd {
		return ""
	}
	at := strings.Index(string(read.body), `"\u0001`)
	if at < 0 {
		return ""
	}
	token, _, _ := strings.Cut(string(read.body[at+len(`"\u0001`):]), `"`)

	return token
}

// available returns the versions of a model that can be asked.
func (t *TFServing) available(ctx context.Context, model string) ([]string, error) {
	act := "ask whether " + model + " is available"
	answer, err := t.client.control(ctx, http.MethodGet, tfPath(model), nil)
	if err != nil {
		return nil, renamed(err, act)
	}
	if answer.Status != http.StatusOK {
		return nil, answered(act, answer)
	}
	var said struct {
		Versions []struct {
			Version string `json:"version"`
			State   string `json:"state"`
		} `json:"model_version_status"`
	}
	if err := json.Unmarshal(answer.Body, &said); err != nil {
		return nil, &Error{Act: act, Kind: ErrNotYet, Status: answer.Status, Excerpt: excerpt(answer.Body), Err: err}
	}
	var versions []string
	for _, version := range said.Versions {
		if version.State == "AVAILABLE" {
			versions = append(versions, version.Version)
		}
	}
	if versions == nil {
		return nil, &Error{Act: act, Kind: ErrNotYet, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	}
	slices.Sort(versions)

	return versions, nil
}
