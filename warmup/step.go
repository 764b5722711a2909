package warmup

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

const (
	// DefaultStepTimeout limits one try of a step when the user sets no limit.
	DefaultStepTimeout = 5 * time.Minute
	// DefaultRetries is how many more tries a failed step gets when the user does not say.
	DefaultRetries = 3
)

// step is a StepConfig with every default filled in.
type step struct {
	name     string
	kind     Kind
	needs    []string
	timeout  time.Duration
	retries  int
	optional bool
	wait     WaitConfig
	infer    InferConfig
}

func newStep(config StepConfig) (step, error) {
	made := step{
		name: config.Name, needs: config.Needs, timeout: config.Timeout.Std(), retries: DefaultRetries, optional: config.Optional,
	}
	if made.timeout <= 0 {
		made.timeout = DefaultStepTimeout
	}
	if config.Retries != nil {
		made.retries = *config.Retries
	}
	switch {
	case config.Name == "":
		return made, errors.New("it has no name")
	case made.retries < 0:
		return made, fmt.Errorf("step %q: retries is %d, expected 0 or more", config.Name, made.retries)
	case (config.Wait == nil) == (config.Infer == nil):
		return made, fmt.Errorf("step %q: expected exactly one of wait and infer", config.Name)
	case config.Wait != nil:
		made.kind, made.wait = KindWait, *config.Wait
	default:
		made.kind, made.infer = KindInfer, *config.Infer
		if made.infer.MaxRequests <= 0 {
			made.infer.MaxRequests = DefaultMaxRequests
		}
		for _, list := range [][]int{made.infer.Grid.Batch, made.infer.Grid.Concurrency} {
			if slices.ContainsFunc(list, func(n int) bool { return n < 1 }) {
				return made, fmt.Errorf("step %q: its grid is %v, expected numbers of at least 1", config.Name, list)
			}
		}
	}

	return made, nil
}

func (s step) expect() backend.Expect {
	return backend.Expect{Status: s.infer.Expect.Status, Finite: s.infer.Expect.Finite == nil || *s.infer.Expect.Finite}
}
