package warmup

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// ColdError says that a model that was warm is not any more, by the server's own word: it was unloaded, or loaded anew. That is no failure: a run of the
// plan makes it warm again.
type ColdError struct {
	Model  string
	Reason string
	// Unloaded is true when the server has unloaded the model because nobody asked for it, and will load it again for whoever does.
	Unloaded bool
}

// Error names the model and the reason.
func (e *ColdError) Error() string { return fmt.Sprintf("model %s is cold: %s", e.Model, e.Reason) }

// Check asks the backend's own model-level readiness for each required model, without any inference, and returns the first error: a *ColdError for a model that
// was warm and has been unloaded or loaded anew since.
func (r *Runner) Check(ctx context.Context) error {
	return r.eachRequired(ctx, func(dialect backend.Dialect, model string) error {
		r.mu.Lock()
		identity, warm := r.warmed[model]
		r.mu.Unlock()
		err := dialect.Ready(ctx, model)
		switch {
		case err != nil && warm && unloaded(err):
			return &ColdError{Model: model, Reason: err.Error()}
		case err != nil || !warm:
			return err
		}
		if unloader, ok := dialect.(backend.Unloader); ok {
			if loaded, err := unloader.Loaded(ctx, model); err == nil && !loaded {
				return &ColdError{Model: model, Reason: "the server has unloaded it", Unloaded: true}
			}
		}
		if now := identify(ctx, dialect, model); identity != "" && now != "" && now != identity {
			return &ColdError{Model: model, Reason: fmt.Sprintf("it was %s and is %s", identity, now)}
		}

		return nil
	})
}

// unloaded says whether an answer about a model means that it is not there. Those that an overloaded server gives to any question mean nothing of the kind.
func unloaded(err error) bool {
	failed, ok := errors.AsType[*backend.Error](err)
	if !ok || !errors.Is(err, backend.ErrNotYet) {
		return false
	}

	return failed.Status == http.StatusOK || failed.Status == http.StatusBadRequest || failed.Status == http.StatusNotFound
}

// identify returns what tells this load of the model from the next one; empty when nobody knows. An error is no evidence.
func identify(ctx context.Context, dialect backend.Dialect, model string) string {
	identifier, ok := dialect.(backend.Identifier)
	if !ok {
		return ""
	}
	identity, err := identifier.Identity(ctx, model)
	if err != nil {
		return ""
	}

	return identity
}
