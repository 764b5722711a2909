package steady_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

const (
	// steadyLatency is the level that every case ends at.
	steadyLatency = 20 * time.Millisecond
	// elsewhere is how many requests other shapes get between the end of a shape's own phase and its verification.
	elsewhere = 40
	// rounds is how often a shape may go back after a verification before it counts as not converged.
	rounds = 3
	// sweep is how many requests of a shape one verification has.
	sweep = 5
	// tableTrials is how many series of each case stand behind the table.
	tableTrials = 400
	// sigmas is how many standard deviations a share may lie beyond the table's before that is no chance.
	sigmas = 3
	// warmWithin is how far above the final level a shape may still be when it is declared warm, without that being premature.
	warmWithin = 0.10
)

// process is how a backend gets warm: it says how many times the steady latency its request number i takes (the first is 0), counted over
// all shapes, and from which number on nothing cold is left.
type process struct {
	name string
	at   func(i int, random *rand.Rand) float64
	warm int
	// slow says that the level falls so slowly that noise wider than that of the table hides it: under such noise no bound is sane.
	slow bool
	// what the table that chose the criterion says: median requests and share of premature verdicts, for one phase and with verification.
	plain, verified figures
}

type figures struct {
	median    int
	premature float64
}

// cold is the first request number from which the level stays within warmWithin of the final one.
func cold(level func(i int) float64) int {
	for i := 3000; i > 0; i-- {
		if level(i-1) > 1+warmWithin {
			return i
		}
	}

	return 0
}

func processes() []process {
	level := func(f func(i int) float64) (func(int, *rand.Rand) float64, int) {
		return func(i int, _ *rand.Rand) float64 { return f(i) }, cold(f)
	}
	decay := func(height, tau float64) func(i int) float64 {
		return func(i int) float64 { return 1 + height*math.Exp(-float64(i)/tau) }
	}
	until := func(n int, height float64) func(i int) float64 {
		return func(i int) float64 {
			if i < n {
				return height
			}

			return 1
		}
	}
	spikes := func(p float64, n int) (func(int, *rand.Rand) float64, int) {
		return func(i int, random *rand.Rand) float64 {
			if random.Float64() < p && i < n {
				return 10
			}

			return 1
		}, n
	}
	all := []process{
		{name: "already warm", plain: figures{14, 0}, verified: figures{19, 0}},
		{name: "first request 50x", plain: figures{14, 0}, verified: figures{19, 0}},
		{name: "exp. decay tau 10", plain: figures{88, 0}, verified: figures{94, 0}},
		{name: "2x level until request 15", plain: figures{14, 0.95}, verified: figures{34, 0}},
		{name: "1.3x until request 40", plain: figures{14, 1}, verified: figures{34, 0}},
		{name: "JIT spikes p=.3 until 25", plain: figures{33, 0.16}, verified: figures{38, 0}},
		{name: "JIT spikes p=.05 until 60", plain: figures{14, 1}, verified: figures{23, 0.40}},
		{name: "bimodal 30 % at 2x", plain: figures{40, 0}, verified: figures{48, 0}},
		{name: "5 % Pareto tail", plain: figures{14, 0}, verified: figures{20, 0}},
		{name: "drift .02/request", slow: true, plain: figures{178, 0.29}, verified: figures{183, 0}},
		{name: "drift .005/request", slow: true, plain: figures{16, 0.82}, verified: figures{182, 0.73}},
	}
	all[0].at, all[0].warm = level(func(int) float64 { return 1 })
	all[1].at, all[1].warm = level(until(1, 50))
	all[2].at, all[2].warm = level(decay(20, 10))
	all[3].at, all[3].warm = level(until(15, 2))
	all[4].at, all[4].warm = level(until(40, 1.3))
	all[5].at, all[5].warm = spikes(0.3, 25)
	all[6].at, all[6].warm = spikes(0.05, 60)
	all[7].at = func(_ int, random *rand.Rand) float64 {
		if random.Float64() < 0.3 {
			return 2
		}

		return 1
	}
	all[8].at = func(_ int, random *rand.Rand) float64 {
		if random.Float64() < 0.05 {
			return math.Pow(1-random.Float64(), -1/1.5)
		}

		return 1
	}
	all[9].at, all[9].warm = level(decay(3, 50))
	all[10].at, all[10].warm = level(decay(3, 200))

	return all
}

// trial runs one series of a case under noise of some law; verify says whether a verdict is verified as the warm-up does it.
func (p process) trial(seed uint64, verify bool, under law) (requests int, result steady.Result, premature bool) {
	random := rand.New(rand.NewPCG(seed, 7))
	noisy := under.start(random)
	clock := 0
	next := func() time.Duration {
		took := noisy(p.at(clock, random))
		clock++

		return time.Duration(took * float64(steadyLatency))
	}
	detector := steady.New(steady.Settings{})
	requests = judge(detector, next, func(n int) { clock += n }, verify)

	return requests, detector.Result(), detector.Result().Steady() && clock < p.warm
}

// judge adds latencies until the detector has decided, and has each verdict verified once other shapes were asked, as the warm-up does. It returns how many requests
// that took; skip lets the time pass that requests of other shapes take.
func judge(detector *steady.Detector, next func() time.Duration, skip func(n int), verify bool) (requests int) {
	for round := 0; ; round++ {
		for detector.Result() == steady.Undecided {
			detector.Add(next())
			requests++
		}
		if !detector.Result().Steady() || !verify {
			return requests
		}
		if round == rounds {
			detector.Reject()

			return requests
		}
		skip(elsewhere)
		latencies := make([]time.Duration, 0, sweep)
		for range sweep {
			latencies = append(latencies, next())
		}
		requests += sweep
		if detector.Verify(latencies) {
			return requests
		}
	}
}

type outcome struct {
	// requests of each trial, in order of size.
	requests     []int
	premature    float64
	notConverged float64
}

func (o outcome) median() int { return o.requests[len(o.requests)/2] }

// within is the share of the trials that took at most n requests.
func (o outcome) within(n int) float64 {
	return float64(sort.SearchInts(o.requests, n+1)) / float64(len(o.requests))
}

func (p process) run(verify bool, under law) outcome {
	counts := make([]int, 0, trials)
	premature, open := 0, 0
	for i := range trials {
		requests, result, early := p.trial(uint64(i)+1, verify, under)
		counts = append(counts, requests)
		if early {
			premature++
		}
		if result == steady.NotConverged {
			open++
		}
	}
	slices.Sort(counts)

	return outcome{counts, float64(premature) / float64(trials), float64(open) / float64(trials)}
}

// TestSimulation holds the criterion against the table that chose it. One phase alone is the negative control: where the table says
// that it calls a cold shape warm, it must do so here too, or the case would prove nothing for the verification.
func TestSimulation(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	fmt.Fprintf(&table, "%-26s %-39s %s\n", "case", "one phase", "verified")
	for _, p := range processes() {
		plain, verified := p.run(false, lognormal), p.run(true, lognormal)
		fmt.Fprintf(&table, "%-26s %3d / %3.0f %% / %3.0f %%  (%3d / %3.0f %%)    %3d / %3.0f %% / %3.0f %%  (%3d / %3.0f %%)\n", p.name,
			plain.median(), 100*plain.premature, 100*plain.notConverged, p.plain.median, 100*p.plain.premature,
			verified.median(), 100*verified.premature, 100*verified.notConverged, p.verified.median, 100*p.verified.premature)
		checkMedian(t, p.name+", one phase", plain, p.plain.median)
		checkMedian(t, p.name+", verified", verified, p.verified.median)
		if limit := upper(p.plain.premature); plain.premature > limit {
			t.Errorf("%s, one phase: premature in %.3f of the trials, expected at most %.3f", p.name, plain.premature, limit)
		}
		if limit := upper(p.verified.premature); verified.premature > limit {
			t.Errorf("%s, verified: premature in %.3f of the trials, expected at most %.3f", p.name, verified.premature, limit)
		}
		if limit := p.plain.premature - (upper(p.plain.premature) - p.plain.premature); plain.premature < limit {
			t.Errorf("%s, one phase: premature in %.3f of the trials, expected at least %.3f: no control for the verification", p.name, plain.premature, limit)
		}
	}
	t.Logf("%d trials a case, %s; median requests / premature / not converged, (the table's median / premature)\n%s", trials, lognormal.name, &table)
}

// checkMedian fails when the median lies above the table's by more than chance: half of the trials would be through by then, had they the table's median.
func checkMedian(t *testing.T, name string, got outcome, want int) {
	t.Helper()
	if share, least := got.within(want), 0.5-(upper(0.5)-0.5); share < least {
		t.Errorf("%s: %.3f of the trials took at most the %d requests that the table has as its median (ours is %d), expected at least %.3f",
			name, share, want, got.median(), least)
	}
}

// upper is the binomial bound on the share seen in our trials of what showed with rate in those of the table.
func upper(rate float64) float64 {
	// What did not show in 400 trials may still have a rate of some thousandths.
	known := max(rate*(1-rate), 1.0/tableTrials)

	return rate + sigmas*math.Sqrt(known/tableTrials+known/trials)
}

// BenchmarkSimulation prints the table's figures for each case as metrics.
func BenchmarkSimulation(b *testing.B) {
	for _, p := range processes() {
		b.Run(p.name, func(b *testing.B) {
			var verified outcome
			for b.Loop() {
				verified = p.run(true, lognormal)
			}
			b.ReportMetric(float64(verified.median()), "requests")
			b.ReportMetric(verified.premature, "premature")
			b.ReportMetric(verified.notConverged, "not-converged")
		})
	}
}
