package health

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
)

// must makes a move that is expected to be legal.
func must(t *testing.T, m *Machine, scope string, to State) {
	t.Helper()
	if err := m.Move(scope, to, "test"); err != nil {
		t.Fatal(err)
	}
}

// warm takes the backend and the models, or everything that is there, to ready.
func warm(t *testing.T, m *Machine) {
	t.Helper()
	m.MoveAll(Warming, "test")
	m.MoveAll(Ready, "test")
	if m.Pod() != Ready || !m.Ready() {
		t.Fatalf("the pod is %s, ready %v after everything was warmed", m.Pod(), m.Ready())
	}
}

func asJSON(t *testing.T, m *Machine) string {
	t.Helper()
	text, err := json.Marshal(m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

func required(names ...string) []ModelConfig {
	configs := make([]ModelConfig, 0, len(names))
	for _, name := range names {
		configs = append(configs, ModelConfig{Name: name, Required: true})
	}

	return configs
}

func TestIllegalMoveNamesBothStatesAndChangesNothing(t *testing.T) {
	moves := 0
	m := NewMachine(Settings{Models: required("a"), Moved: func(Move) { moves++ }})
	before := asJSON(t, m)
	for _, test := range []struct {
		name, scope string
		to          State
		expected    []string
	}{
		{"backend", "", Ready, []string{"backend", "from starting to ready"}},
		{"model", "a", Degraded, []string{`model "a"`, "from starting to degraded"}},
		{"unknown model", "b", Warming, []string{`model "b"`, "warming", "no such model"}},
		{"a model leaves alone", "a", Draining, []string{`model "a"`, "from starting to draining", "whole backend"}},
		{"a state that does not exist", "a", State(42), []string{"from starting to State(42)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := m.Move(test.scope, test.to, "test")
			if err == nil {
				t.Fatal("no error")
			}
			for _, word := range test.expected {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("error %q does not say %q", err, word)
				}
			}
		})
	}
	if after := asJSON(t, m); after != before || moves != 0 {
		t.Errorf("%d moves, and\n%s\nbecame\n%s", moves, before, after)
	}
	if err := m.Move("a", Starting, "test"); err != nil || moves != 0 {
		t.Errorf("staying: %v, %d moves", err, moves)
	}
}

func TestGateOpensBeforeReadyIsSeenAndHoldsAfter(t *testing.T) {
	var m *Machine
	var seen []string
	m = NewMachine(Settings{Moved: func(move Move) {
		word := "503"
		if m.Ready() { // what a prober would get while the gate is being moved
			word = "200"
		}
		seen = append(seen, move.From.String()+">"+move.To.String()+" "+word+" "+m.Pod().String())
	}})
	for _, to := range []State{Warming, Ready, Degraded, Ready, Unhealthy, Degraded, Cold, Warming, Ready, Draining, Stopped} {
		must(t, m, "", to)
	}
	expected := []string{
		"starting>warming 503 warming",
		"warming>ready 503 warming", // not published yet
		"ready>degraded 200 ready",
		"degraded>ready 200 degraded",
		"ready>unhealthy 503 unhealthy", // published already
		"unhealthy>degraded 503 unhealthy",
		"degraded>cold 503 cold",
		"cold>warming 503 warming",
		"warming>ready 503 warming",
		"ready>draining 503 draining",
		"draining>stopped 503 stopped",
	}
	if !slices.Equal(seen, expected) {
		t.Errorf("got\n%s\nexpected\n%s", strings.Join(seen, "\n"), strings.Join(expected, "\n"))
	}
}

func TestMoveAllIsOneMoveOfThePod(t *testing.T) {
	var moves []Move
	m := NewMachine(Settings{Models: required("a", "b", "c"), Moved: func(move Move) { moves = append(moves, move) }})
	warm(t, m)
	must(t, m, "b", Cold)
	moves = nil
	m.MoveAll(Cold, "connection refused")
	if len(moves) != 0 {
		t.Errorf("the pod was cold already and moved: %v", moves)
	}
	m.MoveAll(Idle, "no trigger yet")
	if len(moves) != 1 || moves[0].From != Cold || moves[0].To != Idle || moves[0].Reason != "no trigger yet" {
		t.Errorf("moves %v, expected one from cold to idle", moves)
	}
	must(t, m, "a", Warming)
	must(t, m, "a", Ready)
	m.MoveAll(Degraded, "from idle there is no way")
	if now := m.Snapshot(); now.Models[0].State != Degraded || now.Models[1].State != Idle || now.Backend.State != Idle {
		t.Errorf("models %v: expected the one that may to move, the others to stay", now.Models)
	}
}

// C35: another model loads, or fails, and the pod serves on.
func TestC35ModelsThatAreNotRequiredNeverCount(t *testing.T) {
	m := NewMachine(Settings{Models: []ModelConfig{{Name: "a", Required: true}, {Name: "b"}}})
	warm(t, m)
	for _, to := range []State{Cold, Warming, Unhealthy, Warming} {
		must(t, m, "b", to)
		if m.Pod() != Ready || !m.Ready() {
			t.Errorf("b is %s: the pod is %s, ready %v", to, m.Pod(), m.Ready())
		}
	}
	m.SetModels(required("a", "b"))
	if m.Pod() != Warming || m.Ready() {
		t.Errorf("b is required now and warming: the pod is %s, ready %v", m.Pod(), m.Ready())
	}
	if ready, known := m.ModelReady("a"); !ready || !known {
		t.Error("a is not ready although nothing happened to it")
	}
}

// C48: one bad model and the others.
func TestC48OneBadModelNeverTakesThePodOut(t *testing.T) {
	m := NewMachine(Settings{Models: required("a", "b")})
	warm(t, m)
	must(t, m, "a", Unhealthy)
	now := m.Snapshot()
	if now.State != Degraded || !now.Ready || !slices.Contains(now.Codes(), CodeModelUnhealthy) {
		t.Errorf("the pod is %s, ready %v, codes %v", now.State, now.Ready, now.Codes())
	}
	if a, _ := m.ModelReady("a"); a {
		t.Error("the bad model is ready")
	}
	if b, _ := m.ModelReady("b"); !b {
		t.Error("the good model is not ready")
	}
	must(t, m, "b", Unhealthy)
	if m.Pod() != Unhealthy || m.Ready() {
		t.Errorf("all required models are bad: the pod is %s", m.Pod())
	}
	must(t, m, "a", Ready)
	must(t, m, "b", Ready)
	if now := m.Snapshot(); now.State != Ready || len(now.Codes()) != 0 {
		t.Errorf("all good again: the pod is %s, codes %v", now.State, now.Codes())
	}
	must(t, m, "", Unhealthy)
	if b, known := m.ModelReady("b"); b || !known {
		t.Error("a model is ready on an unhealthy backend")
	}
}

func TestModelsFoundLaterEnterInTheBackendsState(t *testing.T) {
	m := NewMachine(Settings{})
	must(t, m, "", Warming)
	m.SetModels(append(required("a", "a", ""), ModelConfig{Name: "b"}))
	must(t, m, "a", Ready)
	m.SetModels([]ModelConfig{{Name: "a"}, {Name: "c", Required: true}, {Name: "c"}})
	now := m.Snapshot()
	if len(now.Models) != 2 || now.Models[0].State != Ready || now.Models[0].Required || now.Models[1].State != Warming || !now.Models[1].Required {
		t.Errorf("models %+v: expected a as it was and no longer required, c warming and required once", now.Models)
	}
	if _, known := m.ModelReady("b"); known {
		t.Error("b was not named any more and is known")
	}
	if ready, known := m.ModelReady(""); ready || known {
		t.Error("the model without a name is known")
	}
}

func TestKeepStaysReadyOnceReady(t *testing.T) {
	m := NewMachine(Settings{Models: required("a"), Readiness: ReadinessConfig{OnRestart: Keep, OnUnhealthy: Keep}})
	m.MoveAll(Cold, "lost before it was warm")
	if m.Ready() {
		t.Error("ready before it ever was")
	}
	warm(t, m)
	for _, to := range []State{Unhealthy, Cold, Warming} {
		m.MoveAll(to, "test")
		if ready, _ := m.ModelReady("a"); !m.Ready() || !ready {
			t.Errorf("readiness is not kept while %s", to)
		}
	}
	m.MoveAll(Draining, "test")
	if ready, _ := m.ModelReady("a"); m.Ready() || ready {
		t.Error("ready while draining")
	}
}

func TestConditions(t *testing.T) {
	lines := &strings.Builder{}
	m := NewMachine(Settings{Models: required("a"), Logger: slog.New(slog.NewTextHandler(lines, nil))})
	m.Raise("a", CodeWarmFailed, "first")
	since := m.Snapshot().Models[0].Conditions[0].Since
	m.Raise("a", CodeWarmFailed, "second")
	m.Raise("", CodeWorkersUnknown, "")
	now := m.Snapshot()
	if got := now.Models[0].Conditions; len(got) != 1 || got[0].Text != "second" || got[0].Severity != SeverityWarning || !got[0].Since.Equal(since) {
		t.Errorf("conditions of a: %+v", got)
	}
	if now.State != Starting || len(now.Conditions) != 1 {
		t.Errorf("the pod is %s with conditions %+v", now.State, now.Conditions)
	}
	m.Clear("a", CodeWarmFailed)
	m.Clear("a", CodeWarmFailed)
	m.Clear("b", CodeWarmFailed)
	if got := m.Snapshot().Codes(); !slices.Equal(got, []Code{CodeWorkersUnknown}) {
		t.Errorf("codes %v after clearing", got)
	}
	if now.Models[0].Conditions[0].Code != CodeWarmFailed {
		t.Error("a snapshot changed after it was taken")
	}
	m.Raise("nobody", CodeStalled, "x")
	m.Raise("", Code("undeclared"), "x")
	if got := m.Snapshot().Codes(); len(got) != 1 || strings.Count(lines.String(), "condition dropped") != 2 {
		t.Errorf("codes %v, log %s", got, lines)
	}
}

func TestSnapshotKeepsTheLastMoves(t *testing.T) {
	m := NewMachine(Settings{})
	must(t, m, "", Warming)
	for range 200 {
		must(t, m, "", Ready)
		must(t, m, "", Warming)
	}
	moves := m.Snapshot().Moves
	if len(moves) != 64 {
		t.Fatalf("%d moves are kept", len(moves))
	}
	for i, move := range moves[1:] {
		if move.From != moves[i].To || move.At.Before(moves[i].At) {
			t.Errorf("move %d does not follow the one before: %v, %v", i+1, moves[i], move)
		}
	}
	if moves[63].To != Warming {
		t.Errorf("the last move is %v", moves[63])
	}
}

func TestSnapshotIsPlainJSON(t *testing.T) {
	m := NewMachine(Settings{Models: required("a")})
	text := asJSON(t, m)
	for _, part := range []string{`"state":"starting"`, `"ready":false`, `"conditions":[]`, `"moves":[]`, `"name":"a"`, `"required":true`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not hold %s", text, part)
		}
	}
	var read Snapshot
	if err := json.Unmarshal([]byte(text), &read); err != nil || read.Models[0].Name != "a" {
		t.Errorf("read back as %+v, %v", read, err)
	}
}

// TestConcurrentUse lets everybody do everything at once, for the race detector, and checks that the hook saw one unbroken chain of moves.
func TestConcurrentUse(t *testing.T) {
	at, broken, hooked := Starting, 0, 0
	m := NewMachine(Settings{Models: required("a", "b"), Moved: func(move Move) { // never two at a time: no lock of its own
		if move.From != at {
			broken++
		}
		at = move.To
		hooked++
	}})
	var all sync.WaitGroup
	for _, scope := range []string{"", "a", "b"} {
		all.Go(func() {
			for i := range 300 {
				_ = m.Move(scope, StateValues()[i%7], "x") // never draining; illegal ones are part of the game
				m.Raise(scope, CodeStalled, "x")
				m.Clear(scope, CodeStalled)
			}
		})
		all.Go(func() {
			for range 300 {
				_, _ = m.ModelReady(scope)
				_, _ = m.Pod(), m.Snapshot().Codes()
			}
		})
	}
	all.Go(func() {
		for i := range 100 {
			m.SetModels(required("a", "b")[:i%3])
			m.MoveAll(Cold, "x")
		}
	})
	all.Wait()
	if broken > 0 || hooked == 0 || at != m.Pod() {
		t.Errorf("%d of %d moves did not follow the one before; the last leads to %s, the pod is %s", broken, hooked, at, m.Pod())
	}
}

func BenchmarkReady(b *testing.B) {
	m := NewMachine(Settings{Models: required("a")})
	b.ReportAllocs()
	for b.Loop() {
		_ = m.Ready()
	}
}

func TestLooksCostNothing(t *testing.T) {
	m := NewMachine(Settings{Models: required("a")})
	if n := testing.AllocsPerRun(100, func() { _, _ = m.Ready(), m.Pod(); _, _ = m.ModelReady("a") }); n != 0 {
		t.Errorf("a look allocates %v times", n)
	}
}
