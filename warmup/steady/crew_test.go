package steady_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// crew is a simulated backend of several workers, of which each pays once for each shape that it is asked for.
type crew struct {
	name            string
	workers, shapes int
	// inTurn says that no worker is asked twice before all were asked once, as when requests are sent to all of them at the same time; else chance decides.
	inTurn bool
	// premature is how often a worker was left cold in the first run of this simulation. Where chance decides, ten clean requests and a verification prove
	// little, and the less the more workers there are; that is why the warm-up asks all workers at once.
	premature float64
}

// firstHit is how many times the steady latency a worker takes for a shape that it has not seen.
const firstHit = 50

func crews() []crew {
	return []crew{
		{name: "6 shapes, 50x each at first", workers: 1, shapes: 6, inTurn: true},
		{name: "4 workers, 3 shapes, in turn", workers: 4, shapes: 3, inTurn: true},
		{name: "8 workers, 3 shapes, in turn", workers: 8, shapes: 3, inTurn: true},
		{name: "4 workers, 3 shapes, by chance", workers: 4, shapes: 3, premature: 0.02},
		{name: "8 workers, 3 shapes, by chance", workers: 8, shapes: 3, premature: 0.16},
	}
}

// trial warms all shapes one after another, then verifies them in shuffled order, as the warm-up does, and says how many requests the dearest shape took and
// whether any worker was left cold for any shape.
func (c crew) trial(seed uint64) (requests int, left bool) {
	random := rand.New(rand.NewPCG(seed, 7))
	noisy := lognormal.start(random)
	seen := make(map[[2]int]bool)
	turn := 0
	ask := func(shape int) time.Duration {
		worker := turn % c.workers
		if !c.inTurn {
			worker = random.IntN(c.workers)
		}
		turn++
		exact := 1.0
		if !seen[[2]int{worker, shape}] {
			exact = firstHit
		}
		seen[[2]int{worker, shape}] = true

		return time.Duration(noisy(exact) * float64(steadyLatency))
	}
	detectors, counts := make([]*steady.Detector, c.shapes), make([]int, c.shapes)
	for shape := range detectors {
		detectors[shape] = steady.New(steady.Settings{})
	}
	for range rounds {
		for shape, detector := range detectors {
			for detector.Result() == steady.Undecided {
				detector.Add(ask(shape))
				counts[shape]++
			}
		}
		good := true
		for shape, latencies := range c.sweep(random, ask) {
			counts[shape] += sweep
			good = detectors[shape].Verify(latencies) && good
		}
		if good {
			break
		}
	}

	return slices.Max(counts), len(seen) < c.workers*c.shapes
}

func (c crew) sweep(random *rand.Rand, ask func(shape int) time.Duration) [][]time.Duration {
	took := make([][]time.Duration, c.shapes)
	for range sweep {
		for _, shape := range random.Perm(c.shapes) {
			took[shape] = append(took[shape], ask(shape))
		}
	}

	return took
}

// TestSimulationOfCrews plants coldness in each shape and each worker: who reaches all workers leaves none cold.
func TestSimulationOfCrews(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	for _, c := range crews() {
		counts, left := make([]int, 0, trials), 0
		for i := range trials {
			requests, cold := c.trial(uint64(i) + 1)
			counts = append(counts, requests)
			if cold {
				left++
			}
		}
		slices.Sort(counts)
		rate := float64(left) / trials
		fmt.Fprintf(&table, "%-32s %3d / %3.0f %%\n", c.name, counts[trials/2], 100*rate)
		limit := 0.0
		if c.premature > 0 {
			limit = upper(c.premature)
		}
		if rate > limit {
			t.Errorf("%s: a worker was left cold in %.3f of the trials, expected at most %.3f", c.name, rate, limit)
		}
	}
	t.Logf("%d trials a case; median requests of the dearest shape / premature\n%s", trials, &table)
}
