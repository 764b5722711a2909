package warmup_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// recording are settings with a record in a file, beside a process of that name.
func recording(path, process string) warmup.Settings {
	config := warmup.DefaultConfig()
	config.Record = units.Of(path)
	config.Steps = []warmup.StepConfig{waits("backend"), infers("shapes", warmup.InferConfig{Grid: warmup.GridConfig{Concurrency: []int{1, 2}}}, "backend")}

	return warmup.Settings{Config: config, Workers: 1, Process: func() string { return process }}
}

// recorded warms model m, leaves a record, and returns its file.
func recorded(t *testing.T, f *fake) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run", "warm.json")
	first, _, _ := newRunner(t, f, recording(path, "boot 1"))
	if _, err := first.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	return path
}

func TestARestartBesideTheSameBackendConfirmsWhatIsWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: coldly(20 * ms)}})
		path := recorded(t, f)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the record: %v %v, expected mode 0600", info, err)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
			t.Errorf("drafts were left behind: %v", left)
		}
		full := f.count("POST /v2/models/m/infer")
		for range 2 { // a confirmed shape stays on record
			before, began := f.count("POST /v2/models/m/infer"), time.Now()
			runner, _, log := newRunner(t, f, recording(path, "boot 1"))
			report, err := runner.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sent := f.count("POST /v2/models/m/infer") - before
			if sent != 4+4*2 || time.Since(began) > time.Second {
				t.Errorf("%d requests in %v, expected one volley for each of 4 shapes at each of 2 concurrencies; warming took %d", sent, time.Since(began), full)
			}
			for _, s := range report.Shapes {
				if s.State != warmup.ShapeConfirmed {
					t.Errorf("shape %v", s)
				}
			}
			if got := model(t, report, "m"); got.Outcome != warmup.Warm {
				t.Errorf("model %+v", got)
			}
			if !strings.Contains(log.String(), "confirms it") {
				t.Errorf("the log does not say so:\n%s", log)
			}
		}
	})
}

func TestARecordThatIsNotOfThisBackendOrPlanIsIgnored(t *testing.T) {
	for name, test := range map[string]struct {
		process string
		change  func(*warmup.Settings)
		file    string
		because string
	}{
		"another process":        {process: "boot 2", because: "another process"},
		"who listens is unknown": {because: "cannot be seen"},
		"another plan": {
			process: "boot 1", because: "the plan is another one",
			change: func(s *warmup.Settings) {
				s.Config.Steps = []warmup.StepConfig{infers("shapes", warmup.InferConfig{Until: 20})}
			},
		},
		"garbage":          {process: "boot 1", file: "{\"format\": 1, \"ba", because: "no record"},
		"nothing":          {process: "boot 1", file: " ", because: "no record"},
		"another format":   {process: "boot 1", file: `{"format": 99}`, because: "format is 99, expected 1"},
		"more than bounds": {process: "boot 1", file: strings.Repeat(" ", 2<<20), because: "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(20 * ms)}})
				path := recorded(t, f)
				if test.file != "" {
					if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				settings := recording(path, test.process)
				if test.change != nil {
					test.change(&settings)
				}
				runner, _, log := newRunner(t, f, settings)
				report, err := runner.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range report.Shapes {
					if s.State == warmup.ShapeConfirmed || (s.Concurrency == 1 && s.Seen.N < 14) {
						t.Errorf("it was believed: %v", s)
					}
				}
				if !strings.Contains(log.String(), test.because) {
					t.Errorf("the log does not say %q:\n%s", test.because, log)
				}
			})
		})
	}
}

func TestAShapeThatDoesNotConfirmIsWarmedAsEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		f := newFake(t, map[string]*fakeModel{"m": {infer: func(_, batch int) (time.Duration, int, string) {
			if batch == 8 && slow.Load() {
				return 40 * ms, 200, ""
			}

			return 20 * ms, 200, ""
		}}})
		path := recorded(t, f)
		slow.Store(true)
		runner, _, _ := newRunner(t, f, recording(path, "boot 1"))
		report, err := runner.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s := shapeOf(t, report, "m", "batch=8"); s.State != warmup.ShapeConverged || s.Seen.Level < 40*ms {
			t.Errorf("the shape that is slower than on record: %v", s)
		}
		if s := shapeOf(t, report, "m", "batch=4"); s.State != warmup.ShapeConfirmed || s.Seen.N != 1 {
			t.Errorf("one that is as it was: %v", s)
		}
	})
}

// crew are processes behind one port. Whichever accepts first takes a whole volley.
type crew struct {
	draw *rand.Rand
	busy int
	cold []int // how many requests each still takes long for
}

// infer has the fake's lock.
func (c *crew) infer(f **fake) func(int, int) (time.Duration, int, string) {
	return func(int, int) (time.Duration, int, string) {
		if (*f).inFlight == 0 {
			c.busy = c.draw.IntN(len(c.cold))
		}
		if c.cold[c.busy] > 0 {
			c.cold[c.busy]--

			return time.Second, http.StatusOK, ""
		}

		return 20 * ms, http.StatusOK, ""
	}
}

// TestEveryWorkerConfirms has one of four processes replaced by a cold one behind Pilotlight's back. The control has one process, for which one volley is enough.
func TestEveryWorkerConfirms(t *testing.T) {
	for _, test := range []struct {
		name    string
		workers int
		grid    []int // of concurrencies
		volleys int
	}{
		{"at the concurrency of the processes", 4, nil, 21},
		{"at the only concurrency", 4, []int{4}, 21},
		{"one request at once", 4, []int{1}, 21},
		{"one process: the control", 1, []int{4}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			for seed := range uint64(5) {
				synctest.Test(t, func(t *testing.T) {
					processes := &crew{draw: rand.New(rand.NewPCG(seed, 1)), cold: make([]int, test.workers)}
					var f *fake
					f = newFake(t, map[string]*fakeModel{"m": {shape: "[1]", infer: processes.infer(&f)}})
					settings := recording(filepath.Join(t.TempDir(), "warm.json"), "boot 1")
					settings.Workers = test.workers
					settings.Config.Steps = []warmup.StepConfig{infers("shapes", warmup.InferConfig{Grid: warmup.GridConfig{Concurrency: test.grid}})}
					first, _, _ := newRunner(t, f, settings)
					if _, err := first.Run(anHour(t)); err != nil {
						t.Fatal(err)
					}
					second, _, _ := newRunner(t, f, settings)
					report, err := second.Run(anHour(t))
					if err != nil {
						t.Fatal(err)
					}
					last := report.Shapes[len(report.Shapes)-1]
					if last.State != warmup.ShapeConfirmed || last.Seen.N != test.volleys*last.Concurrency {
						t.Errorf("seed %d: %v, expected that %d volleys confirm it", seed, last, test.volleys)
					}
					processes.cold[test.workers-1] = 3
					third, _, _ := newRunner(t, f, settings)
					if _, err = third.Run(anHour(t)); err != nil || processes.cold[test.workers-1] > 0 {
						t.Errorf("seed %d: a process is cold for %d more requests, and the pod calls itself warm (%v)", seed, processes.cold[test.workers-1], err)
					}
				})
			}
		})
	}
}

// TestARewarmBelievesNoRecord asks the same runner again: what was warm once is not what is asked for then, and while it goes on nothing says that all is warm.
func TestARewarmBelievesNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(20 * ms)}})
		path := filepath.Join(t.TempDir(), "warm.json")
		runner, _, _ := newRunner(t, f, recording(path, "boot 1"))
		if _, err := runner.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(300*ms, cancel).Stop()
		if _, err := runner.Run(ctx); err == nil {
			t.Error("a re-warm within 300 ms: it believed the record")
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the record is still there (%v) although the re-warm was given up", err)
		}
	})
}

func TestARecordThatCannotBeWrittenFailsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(20 * ms)}})
		runner, _, log := newRunner(t, f, recording("/dev/null/warm.json", "boot 1"))
		if _, err := runner.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "could not be recorded") {
			t.Errorf("the log does not say so:\n%s", log)
		}
	})
}

// TestAModelThatCouldNotBeWarmedAnewIsOffTheRecord has two models of which one is warmed once more, first in vain.
func TestAModelThatCouldNotBeWarmedAnewIsOffTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, map[string]*fakeModel{"a": {infer: steadily(10 * ms)}, "b": {infer: steadily(10 * ms)}})
		path := filepath.Join(t.TempDir(), "warm.json")
		runner, _, _ := newRunner(t, f, recording(path, "boot 1"))
		names := func() string {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found := ""
			for _, name := range []string{"a", "b"} {
				if strings.Contains(string(text), `"model":"`+name+`"`) {
					found += name
				}
			}

			return found
		}
		if _, err := runner.Run(anHour(t)); err != nil || names() != "ab" {
			t.Fatalf("the record has %s, %v", names(), err)
		}
		works := f.models["b"].infer
		f.models["b"].infer = func(int, int) (time.Duration, int, string) { return ms, http.StatusInternalServerError, "broken" }
		if _, err := runner.RunModel(anHour(t), "b"); err == nil || names() != "a" {
			t.Errorf("the record has %s, %v; expected a alone", names(), err)
		}
		f.models["b"].infer = works
		if _, err := runner.RunModel(anHour(t), "b"); err != nil || names() != "ab" {
			t.Errorf("the record has %s, %v; expected both", names(), err)
		}
	})
}
