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
	before   bool
	wait     WaitConfig
	infer    InferConfig
	call     CallConfig
	replay   ReplayConfig
	prefetch PrefetchConfig
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
		return made, fmt.Errorf("step %q: expected exactly one of wait, infer, call, replay and prefetch", config.Name)
	}
	made.kind = config.Kind()
	var err error
	if made, err = made.taking(config); err != nil {
		return made, fmt.Errorf("step %q: %w", config.Name, err)
	}

	if _, without := alone[made.kind]; made.before && !without {
		return made, fmt.Errorf("step %q: a %v step needs the backend, so that it cannot be before_backend", config.Name, made.kind)
	}

	return made, nil
}

// taking returns the step with what is said about one of its kind, once that is checked.
func (s step) taking(config StepConfig) (_ step, err error) {
	switch s.kind {
	case KindWait:
		s.wait = *config.Wait
	case KindCall:
		s.call = *config.Call
		err = s.call.check()
	case KindReplay:
		if s.replay = *config.Replay; len(s.replay.Files) == 0 {
			err = errors.New("replay names no files")
		}
	case KindPrefetch:
		s.prefetch = *config.Prefetch
		err = s.prefetch.Check()
	case KindInfer:
		if s.infer = *config.Infer; s.infer.MaxRequests <= 0 {
			s.infer.MaxRequests = DefaultMaxRequests
		}
		if err := s.infer.Grid.check(); err != nil {
			return s, fmt.Errorf("its grid: %w", err)
		}
		s.expect, err = newExpect(s.infer.Expect)
	}

	return s, err
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
