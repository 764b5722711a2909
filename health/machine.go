package health

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Settings is what a Machine is made of.
type Settings struct {
	// Models are the models that are known from the start; others join with [Machine.SetModels].
	Models []ModelConfig
	// Readiness is the policy behind /readyz.
	Readiness ReadinessConfig
	// Moved is called for each change of the pod's state, one at a time and in order, while the machine is locked: it must be quick and must not call back into it.
	// It comes before the new state is published when that state serves, so that the gate is open before /readyz says 200,
	// and after it otherwise, so that /readyz says 503 before the gate holds. May be nil.
	Moved func(Move)
	// Backlog says how many requests were held until now and are not answered yet. It is asked while the machine is locked, when the pod begins to serve, and must not call back into it.
	// While there are any, until [Machine.Released], the pod serves but does not call itself ready. Nil: there are none.
	Backlog func() int
	// Logger gets a line for each change of state. nil is silent.
	Logger *slog.Logger
}

// Machine owns the state of the backend as a whole, of each model, and of the pod, which follows from the others (see aggregate).
// All methods may be called concurrently. Those that change something exclude each other; those that only look never wait for anything.
type Machine struct {
	readiness ReadinessConfig
	moved     func(Move)
	backlog   func() int
	logger    *slog.Logger

	published atomic.Pointer[Snapshot]

	mu       sync.Mutex
	backend  scope
	models   []*model
	pod      scope
	release  release
	history  history
	watchers watchers
}

// NewMachine returns a machine in which everything is starting.
func NewMachine(settings Settings) *Machine {
	m := &Machine{readiness: settings.Readiness, moved: settings.Moved, backlog: settings.Backlog, logger: settings.Logger, watchers: watchers{}}
	if m.moved == nil {
		m.moved = func(Move) {}
	}
	if m.backlog == nil {
		m.backlog = func() int { return 0 }
	}
	if m.logger == nil {
		m.logger = slog.New(slog.DiscardHandler)
	}
	now := time.Now()
	m.backend.enter(Starting, now, "")
	m.pod.enter(Starting, now, "")
	m.models = m.arrange(settings.Models, now)
	m.publish()

	return m
}

// Move takes one scope to another state: "" is the backend as a whole, anything else a model. A move that the table does not allow is an error that names both states, and changes nothing.
// Moving to the state that the scope is in does nothing. A model drains or stops only once the backend does: a pod does not leave for one of its models.
func (m *Machine) Move(scope string, to State, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	target, name, ok := m.find(scope)
	if !ok {
		return fmt.Errorf("move %s to %s: no such model", name, to)
	}
	from := target.state
	if scope != "" && to.leaving() && !m.backend.state.leaving() {
		return fmt.Errorf("move %s from %s to %s: only the whole backend drains", name, from, to)
	}
	changed, err := target.move(to, time.Now(), reason)
	if err != nil {
		return fmt.Errorf("move %s %w", name, err)
	}
	if !changed {
		return nil
	}
	if scope != "" {
		m.logger.Info("model state changed", "model", scope, "from", from, "to", to, "reason", reason)
		reason = name + ": " + reason
	}
	m.settle(reason)

	return nil
}

// MoveAll takes the backend scope and every model to a state where the table allows it, and leaves the others. The pod changes at most once.
func (m *Machine) MoveAll(to State, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	changed, _ := m.backend.move(to, now, reason) // what is not allowed is left where it is
	for _, one := range m.models {
		moved, _ := one.move(to, now, reason) // as above
		changed = changed || moved
	}
	if changed {
		m.settle(reason)
	}
}

// SetModels says which models there are. Those that are known keep their state and conditions, new ones enter in the backend scope's present state, and those not named are forgotten.
func (m *Machine) SetModels(configs []ModelConfig) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.models = m.arrange(configs, time.Now())
	m.settle("the models to be warm for changed")
}

// Raise adds a condition to a scope, or renews the text of one that is there. It moves nothing by itself.
func (m *Machine) Raise(scope string, code Code, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	target, _, known := m.find(scope)
	declared, exists := code.Declared()
	if !known || !exists { // both are errors of ours, and must not make the lists grow
		m.logger.Error("condition dropped: no such scope or code", "scope", scope, "code", string(code), "text", text)

		return
	}
	if target.raise(Condition{Code: code, Severity: declared.Severity, Text: text, Since: time.Now()}) {
		m.publish()
	}
}

// Clear removes a condition from a scope.
func (m *Machine) Clear(scope string, code Code) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if target, _, known := m.find(scope); known && target.clear(code) {
		m.publish()
	}
}

// Pod returns the pod's state.
func (m *Machine) Pod() State { return m.published.Load().State }

// Ready returns what /readyz answers.
func (m *Machine) Ready() bool { return m.published.Load().Ready }

// ModelReady returns what /readyz?model= answers, and whether the model is known. One that is not known is never ready.
func (m *Machine) ModelReady(name string) (ready, known bool) {
	found, known := m.published.Load().Model(name)

	return found.Ready, known
}

// Snapshot returns everything the machine knows.
func (m *Machine) Snapshot() Snapshot { return *m.published.Load() }

// find returns a scope and how it is called in an error. The caller holds the lock.
func (m *Machine) find(scope string) (target *scope, name string, ok bool) {
	if scope == "" {
		return &m.backend, "backend", true
	}
	name = fmt.Sprintf("model %q", scope)
	for _, one := range m.models {
		if one.config.Name == scope {
			return &one.scope, name, true
		}
	}

	return nil, name, false
}
