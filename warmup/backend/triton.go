package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Triton speaks to NVIDIA's Triton Inference Server, PyTriton's included: the Open Inference Protocol with a model index and a model configuration.
// From its documentation and source.
//
//	ready        GET /v2/models/M/ready: 200 or 400. /v2/health/ready means all models and is not asked about one: loading one more turns it false
//	models       POST /v2/repository/index: those in state READY, once none is LOADING. PyTriton refuses that by 403 to everybody: they have to be named
//	request      POST /v2/models/M/infer, or ModelInfer over gRPC, made from metadata and configuration (max_batch_size, preferred_batch_size); none for sequences and
//	             decoupled models
//	streaming    none
//	workers      one front end; instances of a model take turns, so that as many requests at once reach all of them
//	identity     versions and platform in the metadata
//	live, ready, control, busy: as for oip
type Triton struct{ OIP }

// NewTriton returns the dialect of the server that client speaks to.
func NewTriton(client *Client) *Triton { return &Triton{OIP{client: client}} }

// Name implements [Dialect].
func (*Triton) Name() string { return "triton" }

// Models implements [Dialect]. A server whose models failed to load says so here, and only here.
func (t *Triton) Models(ctx context.Context) ([]string, error) {
	names, err := t.OIP.Models(ctx)
	failed, _ := errors.AsType[*Error](err)
	switch {
	case err == nil && len(names) == 0:
		err = &Error{Act: "find loaded models", Kind: ErrNotYet, Err: errors.New("no model is READY")}
	case failed != nil && failed.Status == http.StatusForbidden && t.talks(ctx):
		failed.Kind, failed.Err = ErrNotOffered, errors.New("the server refuses its repository index and answers all else, so it is no matter of credentials")
	}

	return names, err
}

// Workers implements [Crew]: the instances of the model, by its configuration.
func (t *Triton) Workers(ctx context.Context, model string) (int, error) {
	config, err := t.configuration(ctx, model)
	if err != nil {
		return 0, err
	}
	instances := 0
	for _, group := range config.Instances {
		// A group on several GPUs has that many instances on each.
		instances += max(group.Count, 1) * max(len(group.GPUs), 1)
	}

	return instances, nil
}

// Request implements [Dialect].
func (t *Triton) Request(model Model, shape Shape, seed uint64) (Request, error) {
	if model.MaxBatch > 0 && shape.Batch > model.MaxBatch {
		return Request{}, unfit(model, shape, fmt.Sprintf("max_batch_size is %d", model.MaxBatch))
	}

	return t.OIP.Request(model, shape, seed)
}

// talks says whether the server tells about itself: whoever refuses our credentials tells nothing.
func (t *Triton) talks(ctx context.Context) bool {
	answer, err := t.client.control(ctx, http.MethodGet, "/v2", nil)

	return err == nil && answer.Status == http.StatusOK
}
