package health

import (
	"slices"
	"time"
)

// arrange makes the list of models from what is wanted and what is there. Of two entries with one name the first counts, and is required if either is. The caller holds the lock.
func (m *Machine) arrange(configs []ModelConfig, at time.Time) []*model {
	models := make([]*model, 0, len(configs))
	named := func(name string) func(*model) bool {
		return func(one *model) bool { return one.config.Name == name }
	}
	for _, config := range configs {
		if config.Name == "" { // is the backend's scope
			continue
		}
		if twice := slices.IndexFunc(models, named(config.Name)); twice >= 0 {
			models[twice].config.Required = models[twice].config.Required || config.Required

			continue
		}
		added := &model{}
		if known := slices.IndexFunc(m.models, named(config.Name)); known >= 0 {
			*added = *m.models[known]
		} else {
			added.given = m.backend.given
			added.enter(m.backend.state, at, m.backend.reason)
		}
		added.config = config
		models = append(models, added)
	}

	return models
}

// settle computes the pod's state from the scopes, publishes it and calls the hook, in the order that [Settings.Moved] promises. The caller holds the lock.
func (m *Machine) settle(reason string) {
	required := make([]State, 0, len(m.models))
	for _, one := range m.models {
		if one.config.Required {
			required = append(required, one.state)
		}
	}
	to := aggregate(m.backend.state, required)
	if to == m.pod.state {
		m.publish()

		return
	}
	move := Move{From: m.pod.state, To: to, At: time.Now(), Reason: reason}
	m.pod.enter(to, move.At, reason)
	m.history.add(move)
	if to.Serves() {
		m.moved(move)
		m.release.begin(m)
		m.publish()
	} else {
		m.release.end()
		m.publish()
		m.moved(move)
	}
	m.logger.Info("pod state changed", "from", move.From, "to", to, "reason", reason, "ready", m.Ready())
}

// publish makes the present state visible to all who look. The caller holds the lock.
func (m *Machine) publish() {
	snapshot := &Snapshot{
		State: m.pod.state, Since: m.pod.since, Reason: m.pod.reason,
		Ready:      m.readiness.answers(m.pod.state, m.pod.given) && !m.release.holds(),
		Backend:    ScopeSnapshot{State: m.backend.state, Since: m.backend.since, Reason: m.backend.reason},
		Models:     make([]ModelSnapshot, 0, len(m.models)),
		Conditions: append([]Condition{}, m.backend.conditions...), // an empty list, not null, in JSON
		Moves:      m.history.list(),
	}
	if m.release.holds() {
		declared := declarations[CodeReleasing]
		snapshot.Conditions = append(snapshot.Conditions, Condition{Code: CodeReleasing, Severity: declared.Severity, Text: declared.Meaning, Since: m.pod.since})
	}
	for _, one := range m.models {
		snapshot.Models = append(snapshot.Models, ModelSnapshot{
			Name: one.config.Name, Required: one.config.Required, State: one.state,
			Ready: m.readiness.answers(m.effective(one), one.given) && !m.release.holds(),
			Since: one.since, Reason: one.reason, Conditions: one.shown(),
		})
	}
	m.published.Store(snapshot)
	m.watchers.tell(*snapshot)
}

// effective is a model's state as a caller of that model meets it: what the whole backend is sick of, or leaving for, holds for each of its models.
func (m *Machine) effective(one *model) State {
	if m.backend.state.leaving() || m.backend.state == Unhealthy {
		return m.backend.state
	}

	return one.state
}
