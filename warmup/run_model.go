package warmup

import (
	"context"
	"fmt"
	"slices"
)

// flight is a run for one model that goes on. Whoever wants the model meanwhile waits for it.
type flight struct {
	done   chan struct{}
	report ModelReport
	err    error
}

// RunModel runs the part of the plan that one model needs, beside whatever the others do, and returns what it came to. There is one such run for a model at a
// time: who asks for a second one gets the result of the first, and leaves it to go on when ctx ends. ErrRunning, by [errors.Is]: the whole plan is being run.
func (r *Runner) RunModel(ctx context.Context, model string) (ModelReport, error) {
	if !r.running.TryRLock() {
		return ModelReport{}, ErrRunning
	}
	defer r.running.RUnlock()
	r.mu.Lock()
	flying := r.flights[model]
	if flying == nil {
		flying = &flight{done: make(chan struct{})}
		r.flights[model] = flying
		r.mu.Unlock()
		r.fly(ctx, model, flying)
	} else {
		r.mu.Unlock()
	}
	select {
	case <-flying.done:
		return flying.report, flying.err
	case <-ctx.Done():
		return ModelReport{}, context.Cause(ctx)
	}
}

// fly runs what a model needs.
func (r *Runner) fly(ctx context.Context, model string, f *flight) {
	defer func() {
		r.mu.Lock()
		delete(r.flights, model)
		r.mu.Unlock()
		close(f.done)
	}()
	limit := r.settings.Config.Timeout.Std()
	part := newRun(ctx, r, model)
	if len(part.nodes) == 0 {
		f.err = fmt.Errorf("warm model %s: no step sends it requests", model)

		return
	}
	ctx, cancel := part.limits.with(ctx, limit, "warm-up ")
	defer cancel()
	r.mu.Lock()
	part.earlier = r.spent[model]
	r.partial[model] = part
	delete(r.known, model)
	delete(r.warmed, model)
	r.mu.Unlock()
	r.settleRecord(ctx) // without the model
	f.err = part.do(ctx)
	part.account(ctx, f.err)
	part.references.end()
	r.settleRecord(ctx)
	report := part.modelReport()
	f.report = report
	r.logger.InfoContext(ctx, "warm-up of one model ended", "model", model, "warm", f.err == nil, "outcome", report.Outcome)
}

// modelReport is the report of the only model of a partial run.
func (c *run) modelReport() ModelReport {
	c.runner.mu.Lock()
	defer c.runner.mu.Unlock()
	if len(c.models) == 0 {
		return ModelReport{Name: c.only, Outcome: Failed}
	}

	return c.models[0]
}

// take puts what a later run has found about one model in place of what stands there.
func (r *Report) take(part Report) {
	r.Requests, r.Busy, r.GPUTime = r.Requests+part.Requests, r.Busy+part.Busy, r.GPUTime+part.GPUTime
	r.Running = r.Running || part.Running
	r.Remaining = max(r.Remaining, part.Remaining)
	for _, model := range part.Models {
		at := slices.IndexFunc(r.Models, func(m ModelReport) bool { return m.Name == model.Name })
		if at < 0 {
			r.Models = append(r.Models, model)
		} else {
			r.Models[at] = model
		}
		r.Shapes = slices.DeleteFunc(r.Shapes, func(s ShapeReport) bool { return s.Model == model.Name })
	}
	r.Shapes = append(r.Shapes, part.Shapes...)
}
