package proxy

import (
	"slices"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"pgregory.net/rapid"
)

// TestQueueBehavesLikeItsModel drives the gate and a plain slice through the same random events.
func TestQueueBehavesLikeItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(0, 4).Draw(rt, "limit")
		g := testGate(func(s *GateSettings) {
			s.Concurrency.Limit = units.Of(limit)
			s.Hold.FailFast = false
			s.Hold.MaxRequests = 8
			s.Hold.MaxWait.Start = units.Duration(time.Hour)
			s.Hold.MaxWait.Restart = units.Duration(time.Hour)
		})
		m := &model{gate: g, limit: limit, permits: g.ramp.permits}
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"arrive":  m.arrive,
			"settle":  m.settle,
			"leave":   m.leave,
			"done":    func(rt *rapid.T) { m.answer(rt, func(e *entry) { g.Done(&e.ticket) }) },
			"good":    func(rt *rapid.T) { m.answer(rt, m.good) },
			"busy":    func(rt *rapid.T) { m.answer(rt, m.busy) },
			"limit":   m.configure,
			"returns": m.returns,
			"hold":    func(*rapid.T) { g.Hold(); m.mode = Holding },
			"ramp": func(rt *rapid.T) {
				n := rapid.IntRange(1, 3).Draw(rt, "n")
				if m.mode == Holding || m.mode == Refusing {
					m.permits, m.mode = n, Ramping
					if m.limit > 0 {
						m.permits = min(n, m.limit)
					}
				}
				g.Ramp(n)
				m.release()
			},
			"refuse": func(*rapid.T) { g.Refuse(BreakerOpen); m.mode = Refusing; m.waiting = nil },
		})
	})
}

type entry struct {
	ticket   Ticket
	complete bool
	returned int // order of return; 0: never
}

type model struct {
	gate     *Gate
	mode     Mode
	limit    int
	permits  int
	waiting  []*entry // in order
	out      []*entry
	free     []*entry // went through a gate that passed
	sentBack int
}

// enter does what Wait does before it waits: the test decides when the waits end.
func (m *model) enter(e *entry) {
	var body *Body
	if !e.complete {
		body = &Body{length: -1}
		body.changed.L = &body.mu
	}
	if m.mode == Passing && m.limit > 0 && m.gate.pass(&e.ticket) {
		m.out = append(m.out, e)

		return
	}
	outcome, decided := m.gate.enter(&e.ticket, body)
	switch {
	case decided && outcome == Proceed && m.counts():
		m.out = append(m.out, e)
	case decided && outcome == Proceed:
		m.free = append(m.free, e)
	case !decided:
		at := len(m.waiting)
		if e.returned > 0 {
			at = 0
			for at < len(m.waiting) && m.waiting[at].returned > 0 && m.waiting[at].returned < e.returned {
				at++
			}
		}
		m.waiting = slices.Insert(m.waiting, at, e)
		m.release()
	}
}

func (m *model) arrive(rt *rapid.T) {
	m.enter(&entry{complete: rapid.Bool().Draw(rt, "complete")})
}

func (m *model) settle(rt *rapid.T) {
	if len(m.waiting) == 0 {
		rt.Skip()
	}
	e := rapid.SampledFrom(m.waiting).Draw(rt, "settled")
	e.complete = true
	m.gate.bodySettled(&e.ticket, Proceed)
	m.release()
}

func (m *model) leave(rt *rapid.T) {
	if len(m.waiting) == 0 {
		rt.Skip()
	}
	e := rapid.SampledFrom(m.waiting).Draw(rt, "leaver")
	if got := m.gate.abandon(&e.ticket); got != Gone {
		rt.Fatalf("leaver got %s", got)
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(o *entry) bool { return o == e })
	m.release()
}

func (m *model) good(e *entry) {
	m.gate.Good(&e.ticket)
	m.gate.Done(&e.ticket)
}

func (m *model) busy(e *entry) {
	m.gate.Busy(&e.ticket)
	m.gate.Done(&e.ticket)
}

// counts says whether permits are needed.
func (m *model) counts() bool { return m.mode == Ramping || (m.mode == Passing && m.limit > 0) }

func (m *model) configure(rt *rapid.T) {
	limit := rapid.IntRange(0, 4).Draw(rt, "limit")
	hold := m.gate.settings.Hold
	m.gate.Configure(hold, 1<<20, ConcurrencyConfig{Limit: units.Of(limit), Ramp: DefaultConcurrency().Ramp})
	if m.mode == Passing && limit == 0 && len(m.waiting) > 0 {
		m.mode = Ramping
	}
	m.limit, m.permits = limit, m.gate.ramp.permits
	m.release()
}

func (m *model) answer(rt *rapid.T, act func(*entry)) {
	if len(m.out) == 0 {
		rt.Skip()
	}
	e := rapid.SampledFrom(m.out).Draw(rt, "answered")
	act(e)
	m.out = slices.DeleteFunc(m.out, func(o *entry) bool { return o == e })
	m.mode, m.permits = m.gate.Mode(), m.gate.ramp.permits // the pace of growth has tests of its own
	if m.limit > 0 && m.permits > m.limit {
		rt.Fatalf("%d permits, beyond the limit of %d", m.permits, m.limit)
	}
	m.release()
}

func (m *model) returns(rt *rapid.T) {
	if len(m.out) == 0 {
		rt.Skip()
	}
	e := rapid.SampledFrom(m.out).Draw(rt, "returned")
	m.out = slices.DeleteFunc(m.out, func(o *entry) bool { return o == e })
	m.sentBack++
	e.returned = m.sentBack
	m.gate.Return(&e.ticket, time.Unix(int64(e.returned), 0))
	m.release()
	m.enter(e)
}

// release gives permits in order, passing over the incomplete while there are complete ones.
func (m *model) release() {
	for m.counts() && len(m.waiting) > 0 && len(m.out) < m.permits && (m.limit == 0 || len(m.out) < m.limit) {
		at := max(0, slices.IndexFunc(m.waiting, func(e *entry) bool { return e.complete }))
		m.out = append(m.out, m.waiting[at])
		m.waiting = slices.Delete(m.waiting, at, at+1)
	}
}

func (m *model) check(rt *rapid.T) {
	s := m.gate.Snapshot()
	if s.Held != len(m.waiting) || s.Mode != m.mode || s.Permitted != len(m.out) {
		rt.Fatalf("gate: %s, %d held, %d out; model: %s, %d, %d", s.Mode, s.Held, s.Permitted, m.mode, len(m.waiting), len(m.out))
	}
	if s.Mode == Passing && s.Held > 0 && m.limit == 0 {
		rt.Fatalf("%d are held at a gate that passes", s.Held)
	}
	for _, e := range m.waiting {
		if e.ticket.place != inLine {
			rt.Fatal("somebody was let through before his turn, or refused")
		}
	}
	for _, e := range m.out {
		if e.ticket.place != permitted {
			rt.Fatal("somebody whose turn it is has no permit")
		}
		select {
		case <-e.ticket.wake:
		default:
		}
	}
}
