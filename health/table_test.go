package health

import (
	"slices"
	"strings"
	"testing"
)

// reference is the transition table once more, as the design prints it, so that a slip in the code is no slip here.
const reference = `
starting:  warming idle cold draining
idle:      warming cold unhealthy draining
warming:   ready degraded cold unhealthy draining
ready:     degraded unhealthy cold warming idle draining
degraded:  ready unhealthy cold warming idle draining
unhealthy: ready degraded warming cold draining
cold:      warming idle draining
draining:  stopped
stopped:
`

// referenceAllows reads the reference; staying is no transition.
func referenceAllows(from, to string) bool {
	for line := range strings.Lines(reference) {
		if name, successors, ok := strings.Cut(line, ":"); ok && name == from {
			return slices.Contains(strings.Fields(successors), to)
		}
	}

	return false
}

func TestTransitionsAreTheDesigns(t *testing.T) {
	for _, from := range StateValues() {
		for _, to := range StateValues() {
			if got, expected := from.mayBecome(to), referenceAllows(from.String(), to.String()); got != expected {
				t.Errorf("%s to %s: allowed is %v, expected %v", from, to, got, expected)
			}
		}
		if from.mayBecome(State(-1)) || State(99).mayBecome(from) {
			t.Errorf("%s is connected with a state that does not exist", from)
		}
	}
}

// everything is the state of a backend and three required models.
type everything [4]State

func (e everything) pod() State { return aggregate(e[0], e[1:]) }

// next lists all that one Move or one MoveAll can make of it.
func (e everything) next() []everything {
	var next []everything
	for _, to := range StateValues() {
		all := e
		for i := range e {
			if !e[i].mayBecome(to) {
				continue
			}
			all[i] = to
			if i == 0 || !to.leaving() || e[0].leaving() { // a model does not leave alone
				one := e
				one[i] = to
				next = append(next, one)
			}
		}
		next = append(next, all)
	}

	return next
}

// TestPodMovesAreLegalOrNamed walks everything that can ever happen to a backend and three required models:
// the pod makes only moves that the table allows or that are named as jumps, and no jump is named in vain.
func TestPodMovesAreLegalOrNamed(t *testing.T) {
	start := everything{Starting, Starting, Starting, Starting}
	seen, queue := map[everything]bool{start: true}, []everything{start}
	unused, unnamed := map[State][]State{}, map[[2]State]bool{}
	for from, targets := range jumps {
		unused[from] = slices.Clone(targets)
	}
	for len(queue) > 0 {
		here := queue[0]
		queue = queue[1:]
		for _, there := range here.next() {
			from, to := here.pod(), there.pod()
			if from != to && !from.mayBecome(to) {
				if pair := [2]State{from, to}; !slices.Contains(jumps[from], to) && !unnamed[pair] {
					unnamed[pair] = true
					t.Errorf("the pod goes from %s to %s as %v becomes %v: neither legal nor named", from, to, here, there)
				}
				unused[from] = slices.DeleteFunc(unused[from], func(s State) bool { return s == to })
			}
			if !seen[there] {
				seen[there] = true
				queue = append(queue, there)
			}
		}
	}
	for from, targets := range unused {
		for _, to := range targets {
			t.Errorf("the jump from %s to %s is named and never happens", from, to)
		}
	}
	if len(seen) < 1000 {
		t.Fatalf("walked through %d constellations only: the check proves nothing", len(seen))
	}
}
