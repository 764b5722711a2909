package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// managementPort is where TorchServe's management API listens unless it was told otherwise.
const managementPort = "8081"

// TorchServe speaks to TorchServe. From its documentation and source.
//
//	ready        GET /ping: 200 {"status":"Healthy"}; a 200 whose body says "Unhealthy" or "Partial Healthy" is "not yet", as is 500. Then the workers of
//	             the model, GET /models/M: all of them READY, and at least one. They are asked for on the same port, then on port 8081 of the same host;
//	             where neither tells, /ping is all there is, and is true before a model is loaded
//	models       GET /models of the management API
//	request      POST /predictions/M with the sample: what a handler takes is its own affair, so none is made up
//	streaming    not warmed by itself
//	workers      minWorkers of the model, where the management API tells
//	identity     modelVersion
//	ready path   /ping
//	control      /models and what is below it
//	busy         429, 503 (no worker, or its queue is full)
type TorchServe struct {
	client     *Client
	management *Client
	sample     *Sample
}

// NewTorchServe returns the dialect of the server that client speaks to.
func NewTorchServe(client *Client, options Options) *TorchServe {
	t := &TorchServe{client: client, sample: options.Sample}
	if client != nil {
		t.management = client.onPort(managementPort)
	}

	return t
}

// Name implements [Dialect].
func (*TorchServe) Name() string { return "torchserve" }

// Up implements [Dialect].
func (t *TorchServe) Up(ctx context.Context) error { return up(ctx, t.client, "/ping") }

// Ready implements [Dialect].
func (t *TorchServe) Ready(ctx context.Context, model string) error {
	const act = "ask whether the server is healthy: GET /ping"
	answer, err := t.client.control(ctx, http.MethodGet, "/ping", nil)
	if err != nil {
		return renamed(err, act)
	}
	var said struct {
		Status string `json:"status"`
	}
	switch {
	case answer.Status != http.StatusOK:
		return answered(act, answer)
	case json.Unmarshal(answer.Body, &said) == nil && said.Status != "" && said.Status != "Healthy" && (model == "" || said.Status != "Partial Healthy"):
		// "Partial Healthy" says that some model lacks workers; which one, the workers say.
		return &Error{Act: act, Kind: ErrNotYet, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	case model == "":
		return nil
	}
	state, err := t.workers(ctx, model)
	switch {
	case errors.Is(err, ErrNotOffered) && said.Status == "Partial Healthy":
		return &Error{Act: act, Kind: ErrNotYet, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	case errors.Is(err, ErrNotOffered):
		return nil
	case err != nil:
		return err
	case state.ready == 0 || state.ready < state.least:
		return &Error{
			Act: "ask for the workers of " + model, Kind: ErrNotYet,
			Err: fmt.Errorf("%d of %d workers are READY", state.ready, max(state.least, state.all)),
		}
	}

	return nil
}

type torchWorkers struct {
	version           string
	ready, all, least int
}

// Models implements [Dialect].
func (t *TorchServe) Models(ctx context.Context) ([]string, error) {
	var said struct {
		Models []struct {
			Name string `json:"modelName"`
		} `json:"models"`
	}
	if err := t.manage(ctx, "/models", &said); err != nil {
		return nil, err
	}
	var names []string
	for _, model := range said.Models {
		names = append(names, model.Name)
	}

	return names, nil
}

// Describe implements [Dialect].
func (t *TorchServe) Describe(_ context.Context, model string) (Model, error) {
	described := Model{Name: model}
	if t.sample == nil {
		described.NoRequest = "what its handler takes is known to nobody else; a file under warmup.sample would say it"
	}

	return described, nil
}

// Request implements [Dialect]. A sample that names no path goes to the model that is warmed.
func (t *TorchServe) Request(model Model, shape Shape, _ uint64) (Request, error) {
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}
	request := t.sample.request()
	if request.Path == "/" {
		request.Path = "/predictions/" + url.PathEscape(model.Name)
	}

	return request, nil
}

// Check implements [Dialect].
func (*TorchServe) Check(act string, answer Answer, expect Expect) error {
	return expect.judge(act, answer, anyContent(expect))
}

// Identity implements [Identifier].
func (t *TorchServe) Identity(ctx context.Context, model string) (string, error) {
	state, err := t.workers(ctx, model)
	if errors.Is(err, ErrNotOffered) {
		return "", nil
	}

	return state.version, err
}

// Workers implements [Crew].
func (t *TorchServe) Workers(ctx context.Context, model string) (int, error) {
	state, err := t.workers(ctx, model)
	if errors.Is(err, ErrNotOffered) {
		return 0, nil
	}

	return max(state.least, state.ready), err
}

// ReadyPath implements [Dialect].
func (*TorchServe) ReadyPath(decoded string) (string, bool) { return "", isOneOf(decoded, "ping") }

// LivePath implements [Dialect].
func (*TorchServe) LivePath(string) bool { return false }

// ControlPath implements [Dialect].
func (*TorchServe) ControlPath(decoded string) bool {
	for _, parts := range [][]string{segments(decoded), strings.Split(strings.TrimPrefix(decoded, "/"), "/")} {
		if parts[0] == "models" {
			return true
		}
	}

	return isOneOf(decoded, "org.pytorch.serve.grpc.management.ManagementAPIsService/RegisterModel",
		"org.pytorch.serve.grpc.management.ManagementAPIsService/UnregisterModel",
		"org.pytorch.serve.grpc.management.ManagementAPIsService/ScaleWorker",
		"org.pytorch.serve.grpc.management.ManagementAPIsService/SetDefault")
}

// onPort returns a client of another port of the same host; nil where the backend has no ports.
func (c *Client) onPort(port string) *Client {
	host, _, err := net.SplitHostPort(c.settings.Address)
	if err != nil || c.settings.Network != "tcp" {
		return nil
	}
	settings := c.settings
	settings.Address, settings.BasePath = net.JoinHostPort(host, port), ""
	other, err := NewClient(settings)
	if err != nil {
		return nil
	}

	return other
}

// manage asks the management API. ErrNotOffered: it cannot be reached, or does not talk to us.
func (t *TorchServe) manage(ctx context.Context, path string, into any) error {
	act := "ask the management API: GET " + path
	for _, client := range []*Client{t.client, t.management} {
		if client == nil {
			continue
		}
		answer, err := client.control(ctx, http.MethodGet, path, nil)
		if ctx.Err() != nil {
			return renamed(err, act)
		}
		if err == nil && answer.Status == http.StatusOK && json.Unmarshal(answer.Body, into) == nil {
			return nil
		}
		if err == nil && client == t.management && answer.Status == http.StatusNotFound {
			return answered(act, answer)
		}
	}

	return &Error{Act: act, Kind: ErrNotOffered}
}

func (t *TorchServe) workers(ctx context.Context, model string) (state torchWorkers, err error) {
	var said []struct {
		Version string `json:"modelVersion"`
		Least   int    `json:"minWorkers"`
		Workers []struct {
			Status string `json:"status"`
		} `json:"workers"`
	}
	if err := t.manage(ctx, "/models/"+url.PathEscape(model), &said); err != nil {
		return state, err
	}
	for _, version := range said {
		state.version += version.Version + " "
		state.least += version.Least
		for _, worker := range version.Workers {
			state.all++
			if worker.Status == "READY" {
				state.ready++
			}
		}
	}
	state.version = strings.TrimSpace(state.version)

	return state, nil
}
