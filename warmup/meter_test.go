package warmup

import (
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// TestMeterWaitsForBothClocks has a prefill that is warm at once and a decoding that gets warm later, and the control in which both are.
func TestMeterWaitsForBothClocks(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	count := func(coldGaps int) (n int, m *meter) {
		m = newMeter(200)
		for ; m.result() == steady.Undecided; n++ {
			gap := 10*ms + time.Duration(max(coldGaps-n, 0))*ms // it gets warm bit by bit
			m.add(sample{first: 50 * ms, gap: gap})
		}

		return n, m
	}
	warm, _ := count(0)
	late, m := count(40)
	if warm > 20 || late <= 40 {
		t.Errorf("%d requests when all is warm, %d when decoding gets faster for the first 40", warm, late)
	}
	seen, gaps := m.reports()
	if seen.Level != 50*ms || gaps == nil || gaps.Level != 10*ms || seen.Result != steady.Converged {
		t.Errorf("reports %+v, %+v", seen, gaps)
	}
	if m.verify([]sample{{first: 50 * ms, gap: 30 * ms}, {first: 50 * ms, gap: 30 * ms}}) {
		t.Error("a decoding that has become slow again is verified")
	}
	if m.result() != steady.Undecided {
		t.Errorf("result %v after it moved", m.result())
	}
}

// TestMeterEndsAlthoughGapsAreRare has answers of a single token, but for a few.
func TestMeterEndsAlthoughGapsAreRare(t *testing.T) {
	t.Parallel()
	m := newMeter(50)
	n := 0
	for ; m.result() == steady.Undecided && n < 1000; n++ {
		s := sample{first: time.Second}
		if n%25 == 0 {
			s.gap = time.Second
		}
		m.add(s)
	}
	if n != 50 || m.result() != steady.NotConverged {
		t.Errorf("%v after %d requests", m.result(), n)
	}
}

func TestSampleOfAStream(t *testing.T) {
	t.Parallel()
	timing := backend.Timing{FirstByte: 1, FirstEvent: 10, LastEvent: 40, Events: 4, Total: 50}
	if got := newSample(timing, true); got != (sample{first: 10, gap: 10}) {
		t.Errorf("a stream: %+v", got)
	}
	if got := newSample(timing, false); got != (sample{first: 50}) {
		t.Errorf("a whole answer: %+v", got)
	}
	if got := newSample(backend.Timing{Total: 50}, true); got != (sample{first: 50}) {
		t.Errorf("a whole answer where a stream was asked for: %+v", got)
	}
}
