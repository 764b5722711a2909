package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Dialect is how one server type is spoken to. All methods are safe for concurrent use; errors of those that call the server are *Error.
type Dialect interface {
	// Name is the server type as it is written in the configuration.
	Name() string
	// Up returns nil when the server answers at all, whatever it answers.
	Up(ctx context.Context) error
	// Ready returns nil when the server says that it has loaded the model; model "" asks for the server as a whole.
	Ready(ctx context.Context, model string) error
	// Models lists the models that the server has loaded. ErrNotOffered: this server cannot say.
	Models(ctx context.Context) ([]string, error)
	// Describe tells what the model takes.
	Describe(ctx context.Context, model string) (Model, error)
	// Request makes an inference request of that shape; different seeds make different values. ErrNoRequest: it must not be made up.
	Request(model Model, shape Shape, seed uint64) (Request, error)
	// Check judges the answer to an inference; act is what errors call it.
	Check(act string, answer Answer, expect Expect) error
	// ReadyPath says whether a decoded path asks whether the server, or the named model, is ready.
	ReadyPath(path string) (model string, ok bool)
	// LivePath says whether a decoded path asks whether the server lives.
	LivePath(path string) bool
	// ControlPath says whether a decoded path changes what the server serves.
	ControlPath(path string) bool
}

// Model is what a server says of a model.
type Model struct {
	Name    string
	Inputs  []Tensor
	Outputs []Tensor
	// Batched is true when the first dimension of every input is the batch.
	Batched bool
	// MaxBatch is the largest batch the server takes; 0 when it does not say.
	MaxBatch int
	// Preferred are the batch sizes the server likes to form.
	Preferred []int
	// NoRequest says why no request may be made up for this model; empty when one may.
	NoRequest string
}

// Tensor is one input or output. Dimensions of -1 may have any size.
type Tensor struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// Shape is what makes one request to a model cold or warm, as far as a request by itself goes.
type Shape struct {
	// Batch is the number of samples in the request; for a model without batches it is 1.
	Batch int
}

// Expect says what a good answer to an inference looks like.
type Expect struct {
	// Status is the HTTP status; 0 means 200.
	Status int
	// Finite refuses NaN and infinities in the outputs.
	Finite bool
}

// Detect finds out the server type by asking the server. ErrNotYet: it does not answer yet, or says that it is not ready to;
// ErrNotRecognised: what it answered is in the error.
func Detect(ctx context.Context, client *Client) (Dialect, error) {
	const act = "recognise server: GET /v2"
	answer, err := client.control(ctx, http.MethodGet, "/v2", nil)
	if err != nil {
		return nil, renamed(err, act)
	}
	switch {
	case answer.Status == http.StatusOK:
		var server struct {
			Name       string   `json:"name"`
			Version    string   `json:"version"`
			Extensions []string `json:"extensions"`
		}
		if err := json.Unmarshal(answer.Body, &server); err != nil || server.Name == "" {
			return nil, &Error{
				Act: act, Kind: ErrNotRecognised, Status: answer.Status, Excerpt: excerpt(answer.Body),
				Err: errors.New("expected the name, version and extensions of an Open Inference Protocol server"),
			}
		}

		dialect := NewOIP(client)
		dialect.plain = !slices.Contains(server.Extensions, "model_configuration")

		return dialect, nil
	case answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden:
		return nil, &Error{Act: act, Kind: ErrCredentialsRefused, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	case answer.Status == http.StatusTooManyRequests || answer.Status >= http.StatusInternalServerError:
		return nil, &Error{Act: act, Kind: ErrNotYet, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	default:
		return nil, &Error{Act: act, Kind: ErrNotRecognised, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	}
}

// String is the shape as reports and logs write it.
func (s Shape) String() string { return fmt.Sprintf("batch=%d", s.Batch) }
