package warmup

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

const (
	// DefaultStepTimeout limits one try of a step when the user sets no limit.
	DefaultStepTimeout = 5 * time.Minute
	// DefaultRetries is how many more tries a failed step gets when the user does not say.
	DefaultRetries = 3
	// goldenSeed makes the requests of steps that compare answers with a file.
	goldenSeed = 1
)

// step is a StepConfig with every default filled in.
type step struct {
	name     string
	kind     Kind
	needs    []string
	timeout  time.Duration
	retries  int
	optional bool
	// before is true for a step that goes before the backend.
	before bool
	wait   WaitConfig
	infer  InferConfig
	call   CallConfig
	replay ReplayConfig
	// expect is what a good answer to an inference looks like.
	expect backend.Expect
}

func newStep(config StepConfig) (step, error) {
	made := step{
		name: config.Name, needs: config.Needs, timeout: config.Timeout.Std(), retries: DefaultRetries, optional: config.Optional,
		before: config.BeforeBackend,
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
	case config.Kinds() != 1:
		return made, fmt.Errorf("step %q: expected exactly one of wait, infer, call and replay", config.Name)
	case config.Wait != nil:
		made.kind, made.wait = KindWait, *config.Wait
	case config.Call != nil:
		made.kind, made.call = KindCall, *config.Call
		if err := made.call.check(); err != nil {
			return made, fmt.Errorf("step %q: %w", config.Name, err)
		}
	case config.Replay != nil:
		made.kind, made.replay = KindReplay, *config.Replay
		if len(made.replay.Files) == 0 {
			return made, fmt.Errorf("step %q: replay names no files", config.Name)
		}
	default:
		made.kind, made.infer = KindInfer, *config.Infer
		if made.infer.MaxRequests <= 0 {
			made.infer.MaxRequests = DefaultMaxRequests
		}
		if err := made.infer.Grid.check(); err != nil {
			return made, fmt.Errorf("step %q: its grid: %w", config.Name, err)
		}
		var err error
		if made.expect, err = newExpect(made.infer.Expect); err != nil {
			return made, fmt.Errorf("step %q: %w", config.Name, err)
		}
	}

	if _, without := alone[made.kind]; made.before && !without {
		return made, fmt.Errorf("step %q: a %v step needs the backend, so that it cannot be before_backend", config.Name, made.kind)
	}

	return made, nil
}

// newExpect reads what there is to compare with.
func newExpect(config ExpectConfig) (backend.Expect, error) {
	expect := backend.Expect{
		Status: config.Status, Finite: config.Finite == nil || *config.Finite, JSON: config.JSON, Tolerance: config.Tolerance,
	}
	if config.EqualsFile == "" {
		return expect, nil
	}
	golden, err := os.ReadFile(config.EqualsFile)
	if err != nil {
		return expect, fmt.Errorf("read what answers must equal: %w", err)
	}
	expect.Equals = append([]byte{}, golden...)

	return expect, nil
}

// seed makes one request differ from the next, unless all have to get the same answer.
func (s step) seed(r *Runner) uint64 {
	if s.expect.Equals != nil {
		return goldenSeed
	}

	return r.seeds.Add(1)
}
