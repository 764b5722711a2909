package circuit

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// act is one thing that happens to the breaker; n chooses among exchanges, verdicts, states or spans.
type act struct {
	kind string
	n    int
}

// setting is what a sequence happens to.
type setting struct {
	config    Config
	synthetic bool // possible at all
}

var (
	actKinds = []string{
		"allow", "allow", "allow", "start", "start", "progress", "end", "end", "burst", "burst",
		"wait", "wait", "wait", "sicken", "sicken", "halve", "halve", "passes", "fails", "hangs", "lost", "force", "reset",
	}
	spans = []time.Duration{time.Millisecond, time.Second, 6 * time.Second, 11 * time.Second, 31 * time.Second, 3 * time.Minute}
)

func drawSetting(t *rapid.T) setting {
	c := DefaultConfig()
	c.MinRequests = rapid.IntRange(1, 5).Draw(t, "min_requests")
	c.FailureRate = rapid.SampledFrom([]float64{0.1, 0.5, 1}).Draw(t, "failure_rate")
	c.Confirm = rapid.Bool().Draw(t, "confirm")
	c.HalfOpen.Synthetic = rapid.Bool().Draw(t, "half_open.synthetic")
	c.HalfOpen.Requests = rapid.IntRange(1, 5).Draw(t, "half_open.requests")
	c.StalledAfter = rapid.SampledFrom([]Config{DefaultConfig(), stallOff()}).Draw(t, "stalled_after").StalledAfter

	return setting{config: c, synthetic: rapid.Bool().Draw(t, "synthetic")}
}

func drawAct(t *rapid.T) act {
	return act{kind: rapid.SampledFrom(actKinds).Draw(t, "kind"), n: rapid.IntRange(0, 11).Draw(t, "n")}
}

// model is what must be true of the breaker after each act.
type model struct {
	*rig

	under []Exchange
}

// do acts, and checks what the act itself promises.
func (m *model) do(a act) error {
	switch a.kind {
	case "allow":
		before := m.Snapshot().State
		e, err := m.Allow()
		if (err != nil) != (before == Open) {
			return fmt.Errorf("Allow says %w while %s", err, before)
		}
		if err == nil {
			m.under = append(m.under, e)
		}
	case "start", "progress", "end":
		if len(m.under) == 0 {
			return nil
		}
		at := a.n % len(m.under)
		e := m.under[at]
		switch a.kind {
		case "start":
			e.Start(VerdictValues()[a.n%3])
		case "progress":
			e.Progress()
		default:
			e.End(a.n%2 == 0)
			e.End(a.n%2 == 1) // idempotent
			m.under = append(m.under[:at:at], m.under[at+1:]...)
		}
	case "burst":
		for range a.n {
			if e, err := m.Allow(); err == nil {
				e.Start(VerdictValues()[a.n%3])
				e.Start(Bad)
				e.End(false)
			}
		}
	case "sicken": // opens, unless it is forced
		m.answers(fails)
		for range 20 {
			if e, err := m.Allow(); err == nil {
				e.Start(Bad)
				e.End(false)
			}
		}
	case "halve": // turns half-open, if it is open
		m.answers(passes)
		m.Force(HalfOpen)
		m.wait(2 * time.Millisecond)
	case "wait":
		m.wait(spans[a.n%len(spans)])
	case "passes":
		m.answers(passes)
	case "fails":
		m.answers(fails)
	case "hangs":
		m.answers(hangs)
	case "lost":
		forced := m.Snapshot().Forced
		m.Lost()
		if s := m.Snapshot(); (s.State != Closed && !forced) || s.Window != (Tally{}) {
			return fmt.Errorf("after the loss: %+v", s)
		}
	case "force":
		m.Force(StateValues()[a.n%3])
	case "reset":
		m.Reset()
		if s := m.Snapshot(); s.State != Closed || s.Forced {
			return fmt.Errorf("after the reset: %+v", s)
		}
	}

	return nil
}

// check is what holds at any time.
func (m *model) check() error {
	synctest.Wait()
	s := m.Snapshot()
	if s.InFlight != len(m.under) {
		return fmt.Errorf("%d in flight, expected %d: a slot did not come back", s.InFlight, len(m.under))
	}
	if judged := s.Trials.judged() + s.Trials.None; judged > m.config.HalfOpen.Requests || (judged > 0 && s.State != HalfOpen) {
		return fmt.Errorf("trials %+v while %s", s.Trials, s.State)
	}
	failing := false
	for _, what := range m.all() {
		if on, ok := strings.CutPrefix(what, "users failing "); ok {
			if strings.HasPrefix(on, "true") == failing {
				return fmt.Errorf("users failing told twice: %q", m.all())
			}
			failing = !failing

			continue
		}
		from, to, _ := strings.Cut(strings.SplitN(what, ":", 2)[0], " > ")
		switch {
		case from == "closed" && to == "open", from == "open" && to == "half-open", from == "half-open":
		case from == "open" && to == "closed" && strings.Contains(what, "operator"):
		default:
			return fmt.Errorf("moved %q", what)
		}
	}
	if failing != s.UsersFailing {
		return fmt.Errorf("told that users failing is %t, and it is %t", failing, s.UsersFailing)
	}

	return nil
}

// recover is what a pod does in time when its backend is healthy again: the operator's pin is taken back, users come each second
// and are served. Exchanges that never end are left as they are.
func (m *model) recover() error {
	m.answers(passes)
	if m.Snapshot().Forced {
		m.Force(HalfOpen)
	}
	for range 300 {
		if e, err := m.Allow(); err == nil {
			e.Start(Good)
			e.End(false)
		}
		m.wait(time.Second)
	}
	if s := m.Snapshot(); s.State != Closed {
		return fmt.Errorf("after five minutes with a healthy backend: %+v; heard %q", s, m.all())
	}

	return nil
}

// rest is the same without any user, for those that can ask by themselves.
func (m *model) rest() error {
	m.answers(passes)
	if m.Snapshot().Forced {
		m.Force(HalfOpen)
	}
	m.wait(5 * time.Minute)
	if s := m.Snapshot(); s.State != Closed {
		return fmt.Errorf("after five quiet minutes with a healthy backend: %+v; heard %q", s, m.all())
	}

	return nil
}

func TestNoSequenceWedges(t *testing.T) {
	t.Parallel()
	states := map[State]int{}
	rapid.Check(t, func(rt *rapid.T) {
		with := drawSetting(rt)
		acts := rapid.SliceOfN(rapid.Custom(drawAct), 5, 80).Draw(rt, "acts")
		quiet := rapid.Bool().Draw(rt, "quiet")
		var failed error
		// Drawn before the bubble: rapid stops a test by a panic, which must stay in its own goroutine.
		synctest.Test(t, func(t *testing.T) {
			answer := passes
			if !with.synthetic {
				answer = nil
			}
			m := &model{rig: newRig(t, with.config, answer)}
			m.run()
			for i, a := range acts {
				failed = m.do(a)
				if failed == nil {
					failed = m.check()
				}
				if failed != nil {
					failed = fmt.Errorf("act %d (%s %d): %w", i, a.kind, a.n, failed)

					return
				}
				states[m.Snapshot().State]++
			}
			if quiet && with.synthetic && with.config.HalfOpen.Synthetic {
				failed = m.rest()
			} else {
				failed = m.recover()
			}
			for _, e := range m.under {
				e.End(true)
			}
			m.under = nil
			if failed == nil {
				failed = m.check()
			}
		})
		if failed != nil {
			rt.Fatal(failed)
		}
	})
	for _, s := range StateValues() {
		if states[s] == 0 {
			t.Errorf("no sequence ever reached %s: the check proves little", s)
		}
	}
	t.Logf("states reached: %v", states)
}
