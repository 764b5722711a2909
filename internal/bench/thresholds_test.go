package main

import (
	"slices"
	"strings"
	"testing"
)

// measuredAs are figures of one measure: those of the floor, and those of Pilotlight.
func measuredAs(id string, floor, ours []float64) figures {
	f := figures{}
	for round, v := range floor {
		f.put(floorArm, id, round, v)
	}
	for round, v := range ours {
		f.put(pilotlightArm, id, round, v)
	}

	return f
}

func TestJudge(t *testing.T) {
	t.Parallel()
	speed := threshold{arm: pilotlightArm, measure: "c32_rps", relative: true, atLeast: true, limit: 1.6}
	latency := threshold{arm: pilotlightArm, measure: "c1_p50", relative: true, limit: 0.8}
	memory := threshold{arm: pilotlightArm, measure: idleMemory, limit: 30}
	floor := []float64{10, 10, 10, 10, 10, 10, 10}
	tests := []struct {
		name      string
		threshold threshold
		ours      []float64
		want      verdict
	}{
		{"all rounds fast enough", speed, []float64{17, 18, 19, 17, 18, 19, 18}, kept},
		{"all rounds too slow", speed, []float64{15, 14, 15, 13, 15, 14, 15}, missed},
		{"just at the limit", speed, []float64{16, 16, 16, 16, 16, 16, 16}, kept},
		{"rounds on both sides", speed, []float64{10, 20, 11, 21, 12, 22, 13}, undecided},
		{"one bad round fails nothing", speed, []float64{18, 18, 18, 18, 18, 18, 1}, kept},
		{"one good round saves nothing", speed, []float64{10, 10, 10, 10, 10, 10, 99}, missed},
		{"quick enough", latency, []float64{7, 7, 6, 7, 8, 7, 7}, kept},
		{"too slow", latency, []float64{11, 9, 12, 10, 9, 11, 10}, missed},
		{"small enough, whatever the floor's", memory, []float64{29, 20, 25, 28, 24, 25, 26}, kept},
		{"too large", memory, []float64{31, 32, 33, 31, 32, 31, 31}, missed},
		{"no rounds", speed, nil, unmeasured},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := judge(test.threshold, measuredAs(test.threshold.measure, floor, test.ours))
			if got.verdict != test.want {
				t.Errorf("got %s by %s, want %s", got.verdict, got.found("MB"), test.want)
			}
		})
	}
}

func TestARatioWithoutAFloorIsNotMeasured(t *testing.T) {
	t.Parallel()
	for _, promise := range thresholds {
		f := measuredAs(promise.measure, nil, []float64{1, 1, 1})
		if got := judge(promise, f); promise.relative && got.verdict != unmeasured {
			t.Errorf("%s: got %s", promise.measure, got.verdict)
		}
	}
}

func TestEveryThresholdNamesWhatIsMeasured(t *testing.T) {
	t.Parallel()
	for _, promise := range thresholds {
		if measureOf(promise.measure).unit == "" {
			t.Errorf("%s is measured in no case", promise.measure)
		}
		if !slices.Contains(armNames(), promise.arm) {
			t.Errorf("%s is no arm", promise.arm)
		}
		for _, a := range allArms {
			for _, c := range allCases {
				if a.name == promise.arm && slices.ContainsFunc(c.yields, func(y yield) bool { return y.id == promise.measure }) && !a.takesPart(c.name) {
					t.Errorf("%s takes no part in %s, which yields %s", a.name, c.name, promise.measure)
				}
			}
		}
		if better := measureOf(promise.measure).higher; better != promise.atLeast {
			t.Errorf("%s: more is better: %t, but the limit is the least: %t", promise.measure, better, promise.atLeast)
		}
	}
}

func TestAReportSaysWhatIsBroken(t *testing.T) {
	t.Parallel()
	b := &bench{cases: allCases, rounds: 3, figures: measuredAs("c32_rps", []float64{16000, 16000, 16000}, []float64{9800, 9900, 9700})}
	r := newReport(b, nil, nil, "")
	want := "pilotlight, 1 KiB, c=32: requests/s: expected at least 1.60 times the floor's, got 0.61 [0.61, 0.62]"
	if len(r.Broken) != 1 || r.Broken[0] != want {
		t.Errorf("got %q, want %q", r.Broken, want)
	}
	b.figures = measuredAs("c32_rps", []float64{16000, 16000, 16000}, []float64{32000, 32000, 32000})
	if r := newReport(b, nil, nil, ""); len(r.Broken) != 0 {
		t.Errorf("a promise that is kept is called broken: %q", r.Broken)
	}
}

func TestAFailedMeasurementBreaksOnlyWhatIsJudged(t *testing.T) {
	t.Parallel()
	b := &bench{cases: allCases, rounds: 1, figures: figures{}, failures: []failure{
		{Arm: "nginx", Case: "c1", Round: 1, Error: "gone"}, {Arm: pilotlightArm, Case: "sse", Round: 1, Error: "a stream of tokens ended early"},
	}}
	r := newReport(b, nil, nil, "")
	if len(r.Broken) != 1 || !strings.Contains(r.Broken[0], "pilotlight, case sse, round 1: a stream of tokens ended early") {
		t.Errorf("got %q", r.Broken)
	}
	if page := r.markdown(); !strings.Contains(page, "nginx, case c1, round 1: gone") {
		t.Error("the page keeps quiet about what came to nothing")
	}
}

func TestThePageSaysThatTheMachineWasBusy(t *testing.T) {
	t.Parallel()
	for load, want := range map[float64]string{0.4: "a quiet machine", 10.7: "a busy machine"} {
		b := &bench{cases: allCases, rounds: 1, figures: figures{}, machine: machine{Cores: 2, Load: load}}
		if page := newReport(b, nil, nil, "").markdown(); !strings.Contains(page, want) {
			t.Errorf("load %g: expected the page to say %q", load, want)
		}
	}
}

func TestThePageNamesLosses(t *testing.T) {
	t.Parallel()
	f := measuredAs("c32_rps", []float64{100, 101, 99}, []float64{60, 61, 59})
	r := newReport(&bench{cases: allCases, rounds: 3, figures: f}, []armInfo{{Name: floorArm}, {Name: pilotlightArm}}, nil, "")
	if got := r.behind(); len(got) != 1 || !strings.Contains(got[0], "1 KiB, c=32: requests/s: 0.60") || !strings.Contains(got[0], "times floor") {
		t.Errorf("got %q", got)
	}
	f = measuredAs("c32_rps", []float64{100, 101, 99}, []float64{160, 161, 159})
	r = newReport(&bench{cases: allCases, rounds: 3, figures: f}, []armInfo{{Name: floorArm}, {Name: pilotlightArm}}, nil, "")
	if got := r.behind(); len(got) != 0 {
		t.Errorf("a win is called a loss: %q", got)
	}
}
