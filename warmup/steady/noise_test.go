package steady_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// law is how noise falls on a series: start returns what becomes of one exact latency after the other, in multiples of the steady one.
type law struct {
	name  string
	start func(random *rand.Rand) func(exact float64) float64
}

// lognormal is the law that the criterion's numbers were chosen under.
var lognormal = spread("3 % lognormal noise", 0.03)

func spread(name string, sigma float64) law {
	return law{name, func(random *rand.Rand) func(float64) float64 {
		return func(exact float64) float64 { return exact * math.Exp(sigma*random.NormFloat64()) }
	}}
}

// laws are those that nothing was chosen under.
func laws() []law {
	return []law{
		spread("10 % lognormal", 0.10),
		{"gamma, 14 % spread", func(random *rand.Rand) func(float64) float64 {
			const stages = 50 // each of them takes its exponential time: a server that is a row of queues

			return func(exact float64) float64 {
				sum := 0.0
				for range stages {
					sum += random.ExpFloat64()
				}

				return exact * sum / stages
			}
		}},
		{"Pareto tail on each", func(random *rand.Rand) func(float64) float64 {
			const share, shape = 0.02, 1.5 // so heavy that it has no variance

			return func(exact float64) float64 { return exact * (1 + share*(math.Pow(1-random.Float64(), -1/shape)-1)) }
		}},
		{"AR(1) .9, 3 % spread", func(random *rand.Rand) func(float64) float64 {
			const keeps, sigma = 0.9, 0.03
			state := sigma * random.NormFloat64()

			return func(exact float64) float64 {
				state = keeps*state + math.Sqrt(1-keeps*keeps)*sigma*random.NormFloat64()

				return exact * math.Exp(state)
			}
		}},
		{"clock of 4 ms", func(random *rand.Rand) func(float64) float64 {
			noisy := lognormal.start(random)
			tick := 4e6 / float64(steadyLatency)

			return func(exact float64) float64 { return tick * math.Round(noisy(exact)/tick) }
		}},
	}
}

// sanePremature is how much more often than the table says a cold shape may be called warm, verified, under a law that nothing was chosen under. It catches a
// criterion that noise has made blind, and is no promise.
const sanePremature = 0.25

// TestSimulationUnderOtherNoise reports what the criterion makes of the same cases under noise that its numbers were not chosen under.
func TestSimulationUnderOtherNoise(t *testing.T) {
	if trials < tableTrials {
		t.Skip("the race detector makes it dear, and there is no race to find; make bench-steady runs it")
	}
	t.Parallel()
	var table strings.Builder
	for _, under := range append(laws(), recordedLaws(t)...) {
		for _, p := range processes() {
			got := p.run(true, under)
			fmt.Fprintf(&table, "%-24s %-26s %3d / %3.0f %% / %3.0f %%\n", under.name, p.name, got.median(), 100*got.premature, 100*got.notConverged)
			if limit := upper(p.verified.premature) + sanePremature; got.premature > limit && !p.slow {
				t.Errorf("%s, %s: premature in %.3f of the trials, expected at most %.3f", under.name, p.name, got.premature, limit)
			}
			if most := steady.DefaultMax + rounds*sweep; got.requests[len(got.requests)-1] > most {
				t.Errorf("%s, %s: %d requests, expected an end after %d", under.name, p.name, got.requests[len(got.requests)-1], most)
			}
		}
	}
	t.Logf("%d trials a case, verified; median requests / premature / not converged\n%s", trials, &table)
}
