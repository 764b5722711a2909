package warmup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// Plan is a checked DAG of steps. It is not changed once made, and safe for concurrent use.
type Plan struct {
	// steps are in an order in which each comes after those it needs.
	steps []step
}

// NewPlan checks the steps of the configuration; without any, it derives the plan for a server whose API describes its models.
func NewPlan(configs []StepConfig) (Plan, error) {
	if len(configs) == 0 {
		configs = []StepConfig{
			{Name: "backend", Wait: &WaitConfig{}},
			{Name: "shapes", Needs: []string{"backend"}, Infer: &InferConfig{}},
		}
	}
	steps := make([]step, 0, len(configs))
	var problems []error
	for i, config := range configs {
		made, err := newStep(config)
		if err != nil {
			problems = append(problems, fmt.Errorf("check steps[%d]: %w", i, err))
		}
		steps = append(steps, made)
	}
	names := make([]string, 0, len(steps))
	for i, s := range steps {
		if s.name != "" && slices.Contains(names, s.name) {
			problems = append(problems, fmt.Errorf("check steps[%d]: a step named %q stands above", i, s.name))
		}
		names = append(names, s.name)
	}
	if err := errors.Join(problems...); err != nil {
		return Plan{}, err
	}
	sorted, err := sortSteps(steps)
	made := Plan{steps: sorted}

	return made, errors.Join(err, made.checkBefore())
}

// Names returns the names of the steps, each after those it needs.
func (p Plan) Names() []string {
	names := make([]string, 0, len(p.steps))
	for _, s := range p.steps {
		names = append(names, s.name)
	}

	return names
}

// Fits says which step spans shapes by what a server type has no use for.
func (p Plan) Fits(serverType string) error {
	takes, err := backend.Takes(serverType)
	if err != nil {
		return err
	}
	var problems []error
	for _, s := range p.steps {
		if s.kind != KindInfer {
			continue
		}
		if err := fits(s.infer.Grid, takes, "server type "+serverType); err != nil {
			problems = append(problems, fmt.Errorf("step %q: %w", s.name, err))
		}
		if s.infer.Expect.EqualsReference != "" && !slices.Contains(backend.Compares(), serverType) {
			problems = append(problems, fmt.Errorf("step %q: %w", s.name, incomparable(serverType)))
		}
	}

	return errors.Join(problems...)
}

// sortSteps is Kahn's algorithm. Steps that are equally free stay in the order in which they were written.
func sortSteps(steps []step) ([]step, error) {
	at := make(map[string]int, len(steps))
	for i, s := range steps {
		at[s.name] = i
	}
	waiting := make([]int, len(steps))
	neededBy := make([][]int, len(steps))
	var problems []error
	for i, s := range steps {
		for _, need := range s.needs {
			j, known := at[need]
			if !known {
				problems = append(problems, unknownNeed(s.name, need, steps))

				continue
			}
			waiting[i]++
			neededBy[j] = append(neededBy[j], i)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	var free []int
	for i := range steps {
		if waiting[i] == 0 {
			free = append(free, i)
		}
	}
	sorted := make([]step, 0, len(steps))
	for len(free) > 0 {
		i := free[0]
		free = free[1:]
		sorted = append(sorted, steps[i])
		for _, j := range neededBy[i] {
			if waiting[j]--; waiting[j] == 0 {
				free = append(free, j)
			}
		}
	}
	if len(sorted) < len(steps) {
		return nil, fmt.Errorf("sort steps: they need each other: %s", cycle(steps, at, waiting))
	}

	return sorted, nil
}

// cycle names the steps of one cycle, as "a needs b needs a". Whoever still waits leads into one.
func cycle(steps []step, at map[string]int, waiting []int) string {
	i := slices.IndexFunc(waiting, func(n int) bool { return n > 0 })
	var path []int
	for !slices.Contains(path, i) {
		path = append(path, i)
		for _, need := range steps[i].needs {
			if waiting[at[need]] > 0 {
				i = at[need]

				break
			}
		}
	}
	names := []string{}
	for _, j := range path[slices.Index(path, i):] {
		names = append(names, steps[j].name)
	}

	return strings.Join(append(names, steps[i].name), " needs ")
}

func unknownNeed(name, need string, steps []step) error {
	names := make([]string, 0, len(steps))
	for _, s := range steps {
		if s.name != name {
			names = append(names, s.name)
		}
	}
	nearest := units.Nearest(need, names)
	if nearest == "" {
		return fmt.Errorf("sort steps: step %q needs %q, which is no step", name, need)
	}

	return fmt.Errorf("sort steps: step %q needs %q, which is no step; the nearest is %q", name, need, nearest)
}
