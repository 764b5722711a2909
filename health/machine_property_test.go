package health

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// simple is the machine once more, as plainly as it can be said: names of states in a map, everything computed anew each time.
type simple struct {
	policy   ReadinessConfig
	backend  string
	models   map[string]string // name to state
	required map[string]bool
	given    map[string]bool // by scope; "pod" is the pod's
}

func (s *simple) pod() string {
	worst := func(state string) bool {
		for name, at := range s.models {
			if s.required[name] && at == state {
				return true
			}
		}

		return false
	}
	counts, unhealthy := 0, 0
	for name, at := range s.models {
		if s.required[name] {
			counts++
			if at == "unhealthy" {
				unhealthy++
			}
		}
	}
	switch {
	case s.backend == "draining" || s.backend == "stopped" || s.backend == "unhealthy" || counts == 0:
		return s.backend
	case counts == unhealthy:
		return "unhealthy"
	}
	for _, state := range []string{"starting", "cold", "warming", "idle"} {
		if worst(state) {
			return state
		}
	}
	if worst("unhealthy") || worst("degraded") || s.backend == "degraded" {
		return "degraded"
	}

	return "ready"
}

// note remembers who has given readiness once.
func (s *simple) note() {
	for scope, state := range map[string]string{"pod": s.pod(), "": s.backend} {
		s.given[scope] = s.given[scope] || slices.Contains([]string{"ready", "degraded", "idle"}, state)
	}
	for name, state := range s.models {
		s.given["model "+name] = s.given["model "+name] || slices.Contains([]string{"ready", "degraded", "idle"}, state)
	}
}

func (s *simple) set(wanted []ModelConfig) {
	models, given := map[string]string{}, map[string]bool{"pod": s.given["pod"], "": s.given[""]}
	s.required = map[string]bool{}
	for _, config := range wanted {
		models[config.Name], given["model "+config.Name] = s.backend, s.given[""]
		if state, known := s.models[config.Name]; known {
			models[config.Name], given["model "+config.Name] = state, s.given["model "+config.Name]
		}
		s.required[config.Name] = s.required[config.Name] || config.Required
	}
	s.models, s.given = models, given
}

// holds tells whether the gate holds in a state, by the design's table.
func holds(state State) bool { return slices.Contains([]State{Starting, Idle, Warming, Cold}, state) }

// TestMachineAgainstTheSimpleOne runs random events through both. After each: the same states, the same readiness, one hook call for each move of the pod and in its order;
// 200 while the gate holds only where the state is idle or the policy asks for it; no way out of draining; and never a panic.
func TestMachineAgainstTheSimpleOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := ReadinessConfig{
			ReadyWhen:   rapid.SampledFrom(ReadyWhenValues()).Draw(t, "ready_when"),
			OnRestart:   rapid.SampledFrom(ReactionValues()).Draw(t, "on_restart"),
			OnUnhealthy: rapid.SampledFrom(ReactionValues()).Draw(t, "on_unhealthy"),
		}
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		config := rapid.Custom(func(t *rapid.T) ModelConfig {
			return ModelConfig{Name: names.Draw(t, "name"), Required: rapid.Bool().Draw(t, "required")}
		})
		configs := rapid.SliceOfN(config, 0, 4)
		// A state that is no state, and draining, come seldom: otherwise most runs would end early.
		states := rapid.OneOf(rapid.SampledFrom(StateValues()[:Draining]), rapid.SampledFrom(StateValues()[:Draining]), rapid.SampledFrom(append(StateValues(), State(-1), State(9))))
		scopes := rapid.SampledFrom([]string{"", "", "a", "b", "c", "nobody"})

		first := configs.Draw(t, "models")
		plain := &simple{policy: policy, backend: "starting", given: map[string]bool{}}
		plain.set(first)
		last, hooked := Starting, 0
		var m *Machine
		m = NewMachine(Settings{Models: first, Readiness: policy, Moved: func(move Move) {
			hooked++
			if move.From != last || move.From == move.To {
				t.Fatalf("the hook sees %v after %s", move, last)
			}
			if published := m.Pod(); (published == move.To) == move.To.Serves() {
				t.Fatalf("%s is published when the hook sees %v", published, move)
			}
			last = move.To
		}})

		t.Repeat(map[string]func(*rapid.T){
			"move": func(t *rapid.T) {
				scope, to := scopes.Draw(t, "scope"), states.Draw(t, "to")
				from, known := plain.models[scope]
				if scope == "" {
					from, known = plain.backend, true
				}
				leaving := func(state string) bool { return state == "draining" || state == "stopped" }
				legal := known && (from == to.String() || referenceAllows(from, to.String()))
				legal = legal && (scope == "" || !leaving(to.String()) || leaving(plain.backend) || from == to.String())
				if err := m.Move(scope, to, "r"); (err == nil) != legal {
					t.Fatalf("move %q from %s to %s: %v, expected legal to be %v", scope, from, to, err, legal)
				}
				if legal && scope == "" {
					plain.backend = to.String()
				} else if legal {
					plain.models[scope] = to.String()
				}
			},
			"move all": func(t *rapid.T) {
				to := states.Draw(t, "to")
				m.MoveAll(to, "r")
				for name, from := range plain.models {
					if referenceAllows(from, to.String()) {
						plain.models[name] = to.String()
					}
				}
				if referenceAllows(plain.backend, to.String()) {
					plain.backend = to.String()
				}
			},
			"set models": func(t *rapid.T) {
				wanted := configs.Draw(t, "models")
				m.SetModels(wanted)
				plain.set(wanted)
			},
			"raise": func(t *rapid.T) {
				m.Raise(scopes.Draw(t, "scope"), rapid.SampledFrom(append(CodeValues(), "nonsense")).Draw(t, "code"), rapid.String().Draw(t, "text"))
			},
			"clear": func(t *rapid.T) {
				m.Clear(scopes.Draw(t, "scope"), rapid.SampledFrom(CodeValues()).Draw(t, "code"))
			},
			"": func(t *rapid.T) {
				plain.note()
				now := m.Snapshot()
				compare(t, plain, now)
				if now.State != last || len(now.Moves) != min(hooked, historyLength) {
					t.Fatalf("the pod is %s with %d moves; the hook saw %d, the last to %s", now.State, len(now.Moves), hooked, last)
				}
				if now.Ready != m.Ready() || now.State != m.Pod() {
					t.Fatalf("the snapshot says %s, %v; the machine %s, %v", now.State, now.Ready, m.Pod(), m.Ready())
				}
				if now.Ready && holds(now.State) && now.State != Idle && policy.ReadyWhen == WhenWarm && policy.OnRestart == Withdraw {
					t.Fatalf("ready while %s, and no policy says so", now.State)
				}
				if now.Ready && (now.State == Draining || now.State == Stopped) {
					t.Fatalf("ready while %s", now.State)
				}
				for i, move := range now.Moves {
					if move.From == Stopped || (move.From == Draining && move.To != Stopped) {
						t.Fatalf("move %d leads from %s to %s", i, move.From, move.To)
					}
				}
			},
		})
	})
}

// compare checks that the machine shows what the simple one says.
func compare(t *rapid.T, plain *simple, now Snapshot) {
	t.Helper()
	if now.State.String() != plain.pod() || now.Backend.State.String() != plain.backend || len(now.Models) != len(plain.models) {
		t.Fatalf("got pod %s, backend %s, %d models; expected %s, %s, %v", now.State, now.Backend.State, len(now.Models), plain.pod(), plain.backend, plain.models)
	}
	if expected := plain.policy.answers(now.State, plain.given["pod"]); now.Ready != expected {
		t.Fatalf("ready is %v, expected %v", now.Ready, expected)
	}
	for _, one := range now.Models {
		if one.State.String() != plain.models[one.Name] || one.Required != plain.required[one.Name] {
			t.Fatalf("model %q is %s, required %v; expected %s, %v", one.Name, one.State, one.Required, plain.models[one.Name], plain.required[one.Name])
		}
		state := one.State
		if slices.Contains([]string{"draining", "stopped", "unhealthy"}, plain.backend) {
			state = now.Backend.State
		}
		if expected := plain.policy.answers(state, plain.given["model "+one.Name]); one.Ready != expected {
			t.Fatalf("model %q is %s on %s and ready %v, expected %v", one.Name, one.State, plain.backend, one.Ready, expected)
		}
		if _, known := now.Model(one.Name); !known {
			t.Fatalf("model %q is listed and not known", one.Name)
		}
	}
}
