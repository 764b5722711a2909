package warmup

import (
	"context"
	"fmt"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// ReferenceModel is what a Reference calls the one model that it has.
const ReferenceModel = "reference"

// Reference is an Open Inference Protocol server whose answers are right, in a process of its own.
type Reference struct {
	// Ask sends it a request and returns the answer, whatever its status.
	Ask func(ctx context.Context, request backend.Request) (backend.Answer, error)
	// End ends it, and returns once it is gone.
	End func()
}

// references are those of one run, each started when it is first asked for.
type references struct {
	start func(ctx context.Context, path string) (*Reference, error)
	// turn holds the token to start one; whoever comes second finds it started. It guards running.
	turn    chan struct{}
	running map[string]*Reference
}

func newReferences(start func(context.Context, string) (*Reference, error)) *references {
	return &references{start: start, turn: make(chan struct{}, 1), running: map[string]*Reference{}}
}

// get returns the reference for the model at path.
func (r *references) get(ctx context.Context, path string) (*Reference, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if found := r.running[path]; found != nil {
		return found, nil
	}
	started, err := r.start(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("start the reference %s: %w", path, err)
	}
	r.running[path] = started

	return started, nil
}

// drop ends a reference that does not answer, so that the next try gets another one.
func (r *references) drop(path string, silent *Reference) {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.running[path] == silent {
		delete(r.running, path)
		silent.End()
	}
}

// end ends them all. Who asks again gets new ones.
func (r *references) end() {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	for _, one := range r.running {
		one.End()
	}
	clear(r.running)
}

// refer starts the reference that the step asks for, before anything is measured beside it.
func (w *inference) refer(ctx context.Context) error {
	path := w.node.infer.Expect.EqualsReference
	if path == "" {
		return nil
	}
	if _, ok := w.dialect.(backend.Comparer); !ok {
		return &backend.Error{Act: "compare with the reference " + path, Kind: backend.ErrNoRequest, Err: incomparable(w.dialect.Name())}
	}
	_, err := w.run.references.get(ctx, path)

	return err
}

// compare holds an answer against the one that the reference gives to the same request. It is asked once the backend has answered, so that its work is in
// no latency of a request that is alone.
func (w *inference) compare(ctx context.Context, act string, shape backend.Shape, seed uint64, answer backend.Answer) error {
	path := w.node.infer.Expect.EqualsReference
	comparer, ok := w.dialect.(backend.Comparer)
	if path == "" || !ok {
		return nil
	}
	model := w.described
	model.Name, shape.Endpoint = ReferenceModel, backend.EndpointHTTP
	request, err := backend.NewOIP(nil).Request(model, shape, seed)
	if err != nil {
		return err
	}
	reference, err := w.run.references.get(ctx, path)
	if err != nil {
		return err
	}
	right, err := reference.Ask(ctx, request)
	if err != nil {
		if ctx.Err() == nil {
			w.run.references.drop(path, reference)
		}

		return fmt.Errorf("ask the reference %s: %w", path, err)
	}

	return comparer.Compare(act, answer, right, w.node.expect.Tolerance)
}

func incomparable(serverType string) error {
	return fmt.Errorf("expect.equals_reference compares tensors, which a server of type %s does not answer with; expected one of type %s", serverType, strings.Join(backend.Compares(), " or "))
}
