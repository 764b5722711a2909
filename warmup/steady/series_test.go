package steady_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// recording is a file that examples/servers/run --record wrote.
type recording struct {
	Server string `json:"server"`
	Series []struct {
		Shape        string  `json:"shape"`
		Microseconds []int64 `json:"us"`
	} `json:"series"`

	name string
}

// tail is how many latencies at the end of a recorded series are taken for the server's steady ones.
const tail = 150

func recordings(t *testing.T) []recording {
	t.Helper()
	files, err := filepath.Glob("testdata/series/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded series: %v", err)
	}
	all := make([]recording, 0, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := recording{name: strings.TrimSuffix(filepath.Base(file), ".json")}
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, one := range r.Series {
			if most := steady.DefaultMax + rounds*(elsewhere+sweep); len(one.Microseconds) < max(most, 2*tail) {
				t.Fatalf("%s, %s: %d latencies, expected the %d that a verdict may take", file, one.Shape, len(one.Microseconds), max(most, 2*tail))
			}
		}
		all = append(all, r)
	}

	return all
}

// recordedLaws are the noise of real servers on a busy machine: the steady ends of their series, in multiples of the median, in the order in which they came.
func recordedLaws(t *testing.T) []law {
	t.Helper()
	var all []law
	for _, r := range recordings(t) {
		all = append(all, law{"as recorded: " + r.name, func(random *rand.Rand) func(float64) float64 {
			took := r.Series[random.IntN(len(r.Series))].Microseconds
			took = took[len(took)-tail:]
			middle := float64(median(took))
			at := random.IntN(tail)

			return func(exact float64) float64 {
				at = (at + 1) % tail

				return exact * float64(took[at]) / middle
			}
		}})
	}

	return all
}

func median(values []int64) int64 {
	sorted := slices.Sorted(slices.Values(values))

	return sorted[len(sorted)/2]
}

// saneLevel is how many times the level of the series' end that of a verdict may be. It catches a verdict about a server that still was cold, and is no promise:
// others used the machine as well, which is also why later requests may take longer than the level that was found.
const saneLevel = 2

// TestSimulationRecorded lets the criterion judge what the first requests to real servers took that started cold. Nothing was chosen on these series.
func TestSimulationRecorded(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	fmt.Fprintf(&table, "%-10s %-22s %8s %8s   %-13s %8s %9s %8s  %s\n", "server", "shape", "first", "steady", "verdict", "after", "level", "at end", "later over 3x")
	for _, r := range recordings(t) {
		found := 0
		for _, one := range r.Series {
			detector, at := steady.New(steady.Settings{}), 0
			next := func() time.Duration {
				at++

				return time.Duration(one.Microseconds[at-1]) * time.Microsecond
			}
			requests := judge(detector, next, func(n int) { at += n }, true)
			report := detector.Report()
			end := time.Duration(median(one.Microseconds[len(one.Microseconds)-tail:])) * time.Microsecond
			late := 0
			for _, took := range one.Microseconds[at:] {
				if time.Duration(took)*time.Microsecond > 3*end {
					late++
				}
			}
			fmt.Fprintf(&table, "%-10s %-22s %8v %8v   %-13v %8d %9v %8v  %d of %d\n", r.name, one.Shape, report.First.Round(100*time.Microsecond),
				end.Round(10*time.Microsecond), report.Result, requests, report.Level.Round(10*time.Microsecond), end.Round(10*time.Microsecond), late, len(one.Microseconds)-at)
			if !report.Result.Steady() {
				continue
			}
			found++
			if report.Level > saneLevel*end {
				t.Errorf("%s, %s: warm at %v, but later requests take only %v", r.name, one.Shape, report.Level, end)
			}
		}
		if found == 0 {
			t.Errorf("%s: none of %d series was found to become steady", r.name, len(r.Series))
		}
	}
	t.Logf("judged, with verification:\n%s", &table)
}
