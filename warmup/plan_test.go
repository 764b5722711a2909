package warmup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup"
)

func waits(name string, needs ...string) warmup.StepConfig {
	return warmup.StepConfig{Name: name, Needs: needs, Wait: &warmup.WaitConfig{}}
}

func TestNewPlan(t *testing.T) {
	t.Parallel()
	negative := -1
	tests := []struct {
		name  string
		steps []warmup.StepConfig
		want  []string
		err   string
	}{
		{"derived", nil, []string{"backend", "shapes"}, ""},
		{"as written where free", []warmup.StepConfig{waits("b"), waits("a"), waits("c")}, []string{"b", "a", "c"}, ""},
		{"what is needed first", []warmup.StepConfig{waits("c", "b", "a"), waits("b", "a"), waits("a")}, []string{"a", "b", "c"}, ""},
		{"needed twice", []warmup.StepConfig{waits("b", "a", "a"), waits("a")}, []string{"a", "b"}, ""},
		{"cycle", []warmup.StepConfig{waits("x"), waits("in", "a"), waits("a", "x", "b"), waits("b", "c"), waits("c", "a")}, nil, "a needs b needs c needs a"},
		{"cycle of one", []warmup.StepConfig{waits("a", "a")}, nil, "a needs a"},
		{"unknown need", []warmup.StepConfig{waits("weights"), waits("up", "wheights")}, nil, `step "up" needs "wheights", which is no step; the nearest is "weights"`},
		{"unknown need, nothing near", []warmup.StepConfig{waits("weights"), waits("up", "x")}, nil, `step "up" needs "x", which is no step`},
		{"same name", []warmup.StepConfig{waits("a"), waits("a")}, nil, `steps[1]: a step named "a" stands above`},
		{"no name", []warmup.StepConfig{waits("")}, nil, "steps[0]: it has no name"},
		{"nothing to do", []warmup.StepConfig{{Name: "a"}}, nil, "exactly one of wait, infer, call, replay and prefetch"},
		{"two things to do", []warmup.StepConfig{{Name: "a", Wait: &warmup.WaitConfig{}, Infer: &warmup.InferConfig{}}}, nil, "exactly one of wait, infer, call, replay and prefetch"},
		{"retries", []warmup.StepConfig{{Name: "a", Wait: &warmup.WaitConfig{}, Retries: &negative}}, nil, "retries is -1"},
		{"batch", []warmup.StepConfig{{Name: "a", Infer: &warmup.InferConfig{Grid: warmup.GridConfig{Batch: []int{1, 0}}}}}, nil, "at least 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			plan, err := warmup.NewPlan(test.steps)
			if test.err == "" && (err != nil || !slices.Equal(plan.Names(), test.want)) {
				t.Errorf("got %v, %v, expected %v", plan.Names(), err, test.want)
			}
			if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got %v, expected one that says %q", err, test.err)
			}
		})
	}
}

func BenchmarkPlanOf1000Steps(b *testing.B) {
	steps := make([]warmup.StepConfig, 0, 1000)
	for i := range 1000 {
		var needs []string
		for j := max(0, i-3); j < i; j++ {
			needs = append(needs, fmt.Sprintf("step%d", j))
		}
		steps = append(steps, waits(fmt.Sprintf("step%d", i), needs...))
	}
	slices.Reverse(steps)
	for b.Loop() {
		if _, err := warmup.NewPlan(steps); err != nil {
			b.Fatal(err)
		}
	}
}
