package warmup

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// sample is what one answer took.
type sample struct {
	// first is the time to the first token where the answer streamed, else to the whole answer.
	first time.Duration
	// gap is the mean time between two tokens; 0 when the answer had fewer, or did not stream.
	gap time.Duration
}

func newSample(timing backend.Timing, streams bool) sample {
	if !streams || timing.Events == 0 {
		return sample{first: timing.Total}
	}

	return sample{first: timing.FirstEvent, gap: timing.PerEvent()}
}

// meter decides about one shape: by the time to the first token and the time between tokens, each for itself, where answers stream; by the time to the
// whole answer where they do not. A prefill may be warm long before the decoding is, and a sum of both would hide which.
type meter struct {
	first, gap *steady.Detector
	// gaps counts what gap has seen: answers of a single token have none.
	most, gaps int
}

func newMeter(most int) *meter {
	return &meter{first: steady.New(steady.Settings{Max: most}), gap: steady.New(steady.Settings{Max: most}), most: most}
}

func (m *meter) add(s sample) {
	m.first.Add(s.first)
	if s.gap > 0 {
		m.gap.Add(s.gap)
		m.gaps++
	}
}

// result is that of the one that is further from warm.
func (m *meter) result() steady.Result {
	first, gap := m.first.Result(), m.gap.Result()
	if m.gaps == 0 {
		return first
	}
	if gap == steady.Undecided && m.first.Report().N >= m.most {
		return steady.NotConverged // some answers had no gap, so that it would go on beyond the bound
	}
	for _, result := range []steady.Result{steady.NotConverged, steady.Undecided, steady.Multimodal} {
		if first == result || gap == result {
			return result
		}
	}

	return first
}

// verify shows both what was measured in between other shapes.
func (m *meter) verify(samples []sample) bool {
	firsts := make([]time.Duration, 0, len(samples))
	var gaps []time.Duration
	for _, s := range samples {
		firsts = append(firsts, s.first)
		if s.gap > 0 {
			gaps = append(gaps, s.gap)
		}
	}
	verified := m.first.Verify(firsts)
	if m.gaps > 0 && len(gaps) > 0 {
		verified = m.gap.Verify(gaps) && verified
	}

	return verified
}

func (m *meter) reject() { m.first.Reject() }

// limit is the time to the first token, or the answer, above which a request is a cold event.
func (m *meter) limit() time.Duration { return m.first.Limit() }

// ceilings are the longest times to the first token, or the answer, and between tokens that one request can have and be warm; 0 while nobody knows.
func (m *meter) ceilings() (first, gap time.Duration) {
	if m.gaps > 0 {
		gap = m.gap.Ceiling()
	}

	return m.first.Ceiling(), gap
}

// reports tells what was seen; gaps is nil where nothing streamed. The first carries the result of both.
func (m *meter) reports() (seen steady.Report, gaps *steady.Report) {
	seen = m.first.Report()
	seen.Result = m.result()
	if m.gaps > 0 {
		between := m.gap.Report()
		gaps = &between
	}

	return seen, gaps
}
