package circuit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAnExchangeCountsOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		run  func(e Exchange)
		want Tally
	}{
		{"good", func(e Exchange) { e.Start(Good); e.End(false) }, Tally{Good: 1}},
		{"bad", func(e Exchange) { e.Start(Bad); e.End(false) }, Tally{Bad: 1}},
		{"none", func(e Exchange) { e.Start(None); e.End(false) }, Tally{None: 1}},
		{"no start verdict", func(e Exchange) { e.End(false) }, Tally{None: 1}},
		{"broken before its start", func(e Exchange) { e.End(true) }, Tally{None: 1}},
		{"broken after a good start", func(e Exchange) { e.Start(Good); e.End(true) }, Tally{Bad: 1}},
		{"broken after a bad start", func(e Exchange) { e.Start(Bad); e.End(true) }, Tally{Bad: 1}},
		{"broken after none", func(e Exchange) { e.Start(None); e.End(true) }, Tally{None: 1}},
		{"two starts", func(e Exchange) { e.Start(Good); e.Start(Bad); e.End(false) }, Tally{Good: 1}},
		{"two ends", func(e Exchange) { e.Start(Good); e.End(true); e.End(true); e.End(false) }, Tally{Bad: 1}},
		{"a start after the end", func(e Exchange) { e.End(false); e.Start(Bad); e.Progress() }, Tally{None: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := New(Settings{Config: DefaultConfig()})
			e, err := b.Allow()
			if err != nil {
				t.Fatal(err)
			}
			if got := b.Snapshot().InFlight; got != 1 {
				t.Errorf("%d in flight, expected 1", got)
			}
			test.run(e)
			if got := b.Snapshot(); got.Window != test.want || got.InFlight != 0 {
				t.Errorf("window %+v and %d in flight, expected %+v and 0", got.Window, got.InFlight, test.want)
			}
		})
	}
}

func TestTheZeroExchangeDoesNothing(t *testing.T) {
	t.Parallel()
	var e Exchange
	e.Start(Bad)
	e.Progress()
	e.End(true)
}

func TestC42CancelsLeaveTheCountersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, DefaultConfig(), fails).run()
		r.users(5, Good)
		before := r.Snapshot().Window
		for i := range 50 {
			e := r.allow()
			r.wait(100 * time.Millisecond)
			if i%2 == 0 {
				e.Start(None) // left before the first byte, as the proxy says it
			}
			e.End(false)
		}
		after := r.Snapshot().Window
		if after.Good != before.Good || after.Bad != before.Bad || after.None != 50 {
			t.Errorf("window went from %+v to %+v", before, after)
		}
		r.wantState(Closed)
		r.wantHeard()
		// The control: the same number of time-outs of ours opens it.
		r.users(50-1, Bad)
		r.wantState(Open)
	})
}

func TestABackendThatBreaksEveryStreamOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stallOff(), fails).run()
		for range 20 {
			e := r.allow()
			e.Start(Good)
			r.wait(time.Second)
			e.End(true)
		}
		r.wantState(Open)
		r.wantHeard("closed > open: 100 % of 20 exchanges failed within 30s, synthetic request failed: model is sick")
	})
}
