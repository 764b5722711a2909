package warmup

import (
	"math/rand/v2"
	"testing"
)

func TestCrewVolleysReachEveryProcess(t *testing.T) {
	t.Parallel()
	const trials = 2000
	missed := func(random *rand.Rand, processes, volleys int) (share float64) {
		for range trials {
			seen := map[int]bool{}
			for range volleys {
				seen[random.IntN(processes)] = true
			}
			if len(seen) < processes {
				share += 1.0 / trials
			}
		}

		return share
	}
	for _, processes := range []int{2, 4, 16} {
		random := rand.New(rand.NewPCG(uint64(processes), 7))
		// Twice the rate is more than four standard deviations away.
		if share := missed(random, processes, crewVolleys(processes)); share > 2*missedShare {
			t.Errorf("%d processes: one got nothing of %d volleys in %.4f of the trials, expected at most %v", processes, crewVolleys(processes), share, missedShare)
		}
		if share := missed(random, processes, passVolleys+1); share < 0.2 {
			t.Errorf("%d processes: %d volleys miss one in only %.4f of the trials: no control", processes, passVolleys+1, share)
		}
	}
}
