package warmup

import (
	"context"
	"fmt"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// Synthetic makes one inference of the cheapest shape for each required model, and returns the first error. It needs no run before it: what it
// does not know it asks the backend. ErrNoRequest, by [errors.Is]: no request may be made up for a model, so nothing was learnt.
func (r *Runner) Synthetic(ctx context.Context) error {
	return r.eachRequired(ctx, func(_ backend.Dialect, model string) error { return r.SyntheticModel(ctx, model) })
}

// SyntheticModel is Synthetic for one model, required or not.
func (r *Runner) SyntheticModel(ctx context.Context, model string) error {
	dialect, err := r.speak(ctx)
	if err != nil {
		return err
	}
	described, err := r.describe(ctx, dialect, model)
	if err != nil {
		return err
	}
	cheap := step{expect: backend.Expect{Finite: true}}
	for _, s := range r.plan.steps {
		if s.kind == KindInfer && (s.infer.Model == model || s.infer.Model == "") {
			cheap = s

			break
		}
	}

	return r.once(ctx, nil, dialect, described, cheap)
}

// once makes one inference of the cheapest shape of a step and checks its answer; the run is nil for one beside the plan.
func (r *Runner) once(ctx context.Context, c *run, dialect backend.Dialect, model backend.Model, s step) error {
	shape, err := cheapest(s.infer.Grid, model)
	if err != nil {
		return err
	}
	request, err := dialect.Request(model, shape, s.seed(r))
	if err != nil {
		return err
	}
	act := fmt.Sprintf("infer %s %v", model.Name, shape)
	answer, err := r.compute(ctx, c, request)
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}

	return dialect.Check(act, answer, s.expect)
}

// cheapest is the first shape of a plan, with as short an answer as there can be.
func cheapest(grid GridConfig, model backend.Model) (backend.Shape, error) {
	if model.NoRequest != "" {
		return backend.Shape{}, nil // the request will say so
	}
	plan, err := planShapes(grid, model)
	if err != nil {
		return backend.Shape{}, err
	}
	shape := plan[0].shape
	shape.OutputTokens = min(shape.OutputTokens, shortestAnswer)
	shape.Stream = false

	return shape, nil
}

// shortestAnswer has a prefill and a step of decoding.
const shortestAnswer = 2

// eachRequired asks about each required model, up to the first error.
func (r *Runner) eachRequired(ctx context.Context, ask func(dialect backend.Dialect, model string) error) error {
	dialect, err := r.speak(ctx)
	if err != nil {
		return err
	}
	models, err := r.models(ctx, dialect)
	if err != nil {
		return err
	}
	for _, model := range models {
		if !r.settings.Required(model) {
			continue
		}
		if err := ask(dialect, model); err != nil {
			return err
		}
	}

	return nil
}
