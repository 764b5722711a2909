package warmup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// speak returns the dialect, finding it out when nobody knows it yet.
func (r *Runner) speak(ctx context.Context) (backend.Dialect, error) {
	r.mu.Lock()
	dialect := r.dialect
	r.mu.Unlock()
	if dialect != nil {
		return dialect, nil
	}
	dialect, err := backend.Detect(ctx, r.settings.Client, r.settings.Options)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.dialect = dialect
	r.mu.Unlock()
	r.spoken.Store(&dialect)
	r.logger.InfoContext(ctx, "recognised the backend", "server_type", dialect.Name())

	return dialect, nil
}

// Paths are those of the server type as far as it is known. They cost an atomic load, so that they can be asked about every request.
func (r *Runner) Paths() backend.Paths {
	if spoken := r.spoken.Load(); spoken != nil {
		return *spoken
	}

	return backend.AnyPaths{}
}

// workers is the number of processes that must be warmed: the configured one, or what the server says; 0 when nobody knows.
func (r *Runner) workers(ctx context.Context, dialect backend.Dialect, model string) (int, error) {
	if crew, ok := dialect.(backend.Crew); ok && r.settings.Workers == 0 {
		return crew.Workers(ctx, model)
	}

	return r.settings.Workers, nil
}

// describe returns what the model takes, asking the backend once.
func (r *Runner) describe(ctx context.Context, dialect backend.Dialect, name string) (backend.Model, error) {
	r.mu.Lock()
	model, known := r.known[name]
	r.mu.Unlock()
	if known {
		return model, nil
	}
	model, err := dialect.Describe(ctx, name)
	if err != nil {
		return backend.Model{}, err
	}
	r.mu.Lock()
	r.known[name] = model
	r.mu.Unlock()

	return model, nil
}

// named returns the models that the configuration names, and whether the backend is to be asked for more.
func (r *Runner) named() (models []string, discover bool) {
	models = slices.Clone(r.settings.Models)
	discover = len(models) == 0
	all := discover
	for _, s := range r.plan.steps {
		if s.kind != KindInfer {
			continue
		}
		if s.infer.Model == "" {
			all = false
		} else if !slices.Contains(models, s.infer.Model) {
			models = append(models, s.infer.Model)
		}
	}

	return models, discover && (!all || len(models) == 0)
}

// models returns the models to warm. ErrNotYet: the backend has loaded none so far.
func (r *Runner) models(ctx context.Context, dialect backend.Dialect) ([]string, error) {
	models, discover := r.named()
	if !discover {
		return models, nil
	}
	r.mu.Lock()
	found := slices.Clone(r.found)
	r.mu.Unlock()
	if len(found) == 0 {
		listed, err := dialect.Models(ctx)
		if errors.Is(err, backend.ErrNotOffered) && len(models) == 0 {
			// A server that is not through with its start may answer anything.
			if notReady := dialect.Ready(ctx, ""); notReady != nil {
				return nil, notReady
			}

			return nil, fmt.Errorf("find models: this server lists none, name them under models: %w", err)
		}
		if err != nil && !errors.Is(err, backend.ErrNotOffered) {
			return nil, err
		}
		found = listed
		r.mu.Lock()
		r.found = slices.Clone(listed)
		r.mu.Unlock()
	}
	for _, model := range found {
		if !slices.Contains(models, model) {
			models = append(models, model)
		}
	}
	if len(models) == 0 {
		return nil, &backend.Error{Act: "find models", Kind: backend.ErrNotYet, Err: errors.New("the backend has loaded none")}
	}

	return models, nil
}
