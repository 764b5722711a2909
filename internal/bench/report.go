package main

import (
	"fmt"
	"slices"
	"strings"
)

// report is everything that a run has found.
type report struct {
	Command  string    `json:"command"`
	Machine  machine   `json:"machine"`
	Rounds   int       `json:"rounds"`
	Arms     []armInfo `json:"arms"`
	Layers   []string  `json:"layers"`
	Figures  figures   `json:"figures"`
	Failures []failure `json:"failures"`
	// Broken says what made the run fail; empty when nothing did.
	Broken []string `json:"broken"`

	measures   []measure
	judgements []judgement
}

// armInfo is an arm as a reader needs it.
type armInfo struct {
	Name    string `json:"name"`
	What    string `json:"what"`
	Version string `json:"version,omitempty"`
	// Missing says why it was not measured.
	Missing string `json:"missing,omitempty"`
}

// newReport judges what the bench has measured.
func newReport(b *bench, infos []armInfo, layers []string, command string) *report {
	r := &report{
		Command: command, Machine: b.machine, Rounds: b.rounds, Arms: infos, Layers: layers,
		Figures: b.figures, Failures: b.failures,
	}
	for _, c := range b.cases {
		for _, y := range c.yields {
			r.measures = append(r.measures, y.measure)
		}
	}
	for _, t := range thresholds {
		j := judge(t, b.figures)
		r.judgements = append(r.judgements, j)
		if j.verdict == missed {
			m := measureOf(t.measure)
			r.Broken = append(r.Broken, fmt.Sprintf("%s, %s: expected %s, got %s", t.arm, m.title, t.expected(m.unit), j.found(m.unit)))
		}
	}
	for _, f := range b.failures {
		// Without the first three nothing can be judged. What another proxy fails at is its own affair.
		if slices.Contains([]string{direct, floorArm, pilotlightArm, pilotlightTelemetry}, f.Arm) {
			r.Broken = append(r.Broken, fmt.Sprintf("%s, case %s, round %d: %s", f.Arm, f.Case, f.Round, f.Error))
		}
	}

	return r
}

// measureOf is the measure of that id.
func measureOf(id string) measure {
	for _, c := range allCases {
		for _, y := range c.yields {
			if y.id == id {
				return y.measure
			}
		}
	}

	return measure{id: id, title: id}
}

// measured are the arms that took part, in their order.
func (r *report) measured() []armInfo {
	var there []armInfo
	for _, info := range r.Arms {
		if info.Missing == "" {
			there = append(there, info)
		}
	}

	return there
}

// behind lists where Pilotlight is surely worse than another proxy: the whole interval of the ratio is on the bad side.
func (r *report) behind() []string {
	var losses []string
	for _, m := range r.measures {
		var better []string
		for _, other := range r.measured() {
			if other.Name == direct || other.Name == pilotlightArm || other.Name == pilotlightTelemetry {
				continue
			}
			values := ratios(r.Figures.rounds(pilotlightArm, m.id), r.Figures.rounds(other.Name, m.id))
			if len(values) == 0 {
				continue
			}
			ratio := bootstrap(values)
			if (m.higher && ratio.High < 1) || (!m.higher && ratio.Low > 1) {
				better = append(better, fmt.Sprintf("%.2f [%.2f, %.2f] times %s", ratio.Median, ratio.Low, ratio.High, other.Name))
			}
		}
		if better != nil {
			losses = append(losses, m.title+": "+strings.Join(better, ", "))
		}
	}

	return losses
}
