package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
)

// DefaultModel is the name under which an application without model names is reported.
const DefaultModel = "default"

// HTTP speaks to an application of which nothing is known but a sample request.
//
//	ready        backend.ready_path; else the first of /readyz /health/ready /ready /healthz /health that is neither 404 nor 405; else any answer at all.
//	             2xx is ready, 401 and 403 are refused credentials, everything else is "not yet"
//	models       one, called "default"
//	request      the sample of warmup.sample, and never any other: nobody promised that a made-up one has no side effects
//	streaming    when the sample's answer is an event stream or JSON lines, the time to the first one and the time between them are what is watched
//	workers      not told
//	identity     not told
//	ready path   the path above
//	control      none is known
//	busy         429, 503
type HTTP struct {
	client  *Client
	options Options
	// asked is the ready path that was found.
	asked atomic.Pointer[string]
}

// readyPaths are asked for in this order.
var readyPaths = []string{"/readyz", "/health/ready", "/ready", "/healthz", "/health"}

// NewHTTP returns the dialect of the server that client speaks to.
func NewHTTP(client *Client, options Options) *HTTP {
	h := &HTTP{client: client, options: options}
	if options.ReadyPath != "" {
		h.asked.Store(&options.ReadyPath)
	}

	return h
}

// Name implements [Dialect].
func (*HTTP) Name() string { return "http" }

// Up implements [Dialect].
func (h *HTTP) Up(ctx context.Context) error { return up(ctx, h.client, "/") }

// Ready implements [Dialect].
func (h *HTTP) Ready(ctx context.Context, _ string) error {
	candidates := readyPaths
	if asked := h.asked.Load(); asked != nil {
		candidates = []string{*asked}
	}
	for _, path := range candidates {
		act := "ask whether the server is ready: GET " + path
		answer, err := h.client.control(ctx, http.MethodGet, path, nil)
		if err != nil {
			return renamed(err, act)
		}
		if len(candidates) > 1 && (answer.Status == http.StatusNotFound || answer.Status == http.StatusMethodNotAllowed) {
			continue
		}
		if answer.Status/100 != 2 {
			failed := answered(act, answer)
			if e, ok := errors.AsType[*Error](failed); ok && e.Kind == nil {
				e.Kind = ErrNotYet
			}

			return failed
		}
		h.asked.Store(&path)

		return nil
	}

	return nil
}

// Models implements [Dialect].
func (*HTTP) Models(context.Context) ([]string, error) { return []string{DefaultModel}, nil }

// Describe implements [Dialect].
func (h *HTTP) Describe(_ context.Context, model string) (Model, error) {
	described := Model{Name: model}
	if h.options.Sample == nil {
		described.NoRequest = "nothing says that a request to this application has no side effects; a file under warmup.sample would"
	}

	return described, nil
}

// Request implements [Dialect].
func (h *HTTP) Request(model Model, shape Shape, _ uint64) (Request, error) {
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}

	return h.options.Sample.request(), nil
}

// Check implements [Dialect].
func (*HTTP) Check(act string, answer Answer, expect Expect) error {
	return CheckAny(act, answer, expect)
}

// CheckAny judges an answer of which nothing is known but that it should be a good one: any 2xx, unless a status is expected.
func CheckAny(act string, answer Answer, expect Expect) error {
	if expect.Status == 0 && answer.Status/100 == 2 {
		expect.Status = answer.Status
	}

	return expect.judge(act, answer, anyContent(expect))
}

// anyContent judges what may be anything: only what is JSON can hold numbers that are none.
func anyContent(expect Expect) func(content) error {
	return func(read content) error {
		if problem := oddIn(read); problem != "" && expect.Finite && (read.streamed || json.Valid(read.body)) {
			return fmt.Errorf("the answer holds %s", problem)
		}

		return nil
	}
}

// ReadyPath implements [Dialect].
func (h *HTTP) ReadyPath(decoded string) (string, bool) {
	asked := h.asked.Load()

	return "", asked != nil && isOneOf(decoded, (*asked)[1:])
}

// LivePath implements [Dialect].
func (*HTTP) LivePath(string) bool { return false }

// ControlPath implements [Dialect].
func (*HTTP) ControlPath(string) bool { return false }
