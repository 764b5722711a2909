package calm_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup/calm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is what the kernel tells, as a file system whose processors have been in use by the share that was last set.
type machine struct {
	mu    sync.Mutex
	files map[string]string
	// counters write the files that count, given the seconds of processor time so far, of one processor each.
	counters map[string]func(used, passed float64) string
	share    float64
	since    time.Time
	used     float64
	began    time.Time
}

func newMachine() *machine {
	now := time.Now()

	return &machine{files: map[string]string{}, since: now, began: now, counters: map[string]func(float64, float64) string{
		"proc/stat": func(used, passed float64) string {
			return fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 0 0\ncpu0 1 1 1 1\n", int(1e6*used), int(1e6*(passed-used)))
		},
	}}
}

func (m *machine) Open(name string) (fs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.files[name]
	if count := m.counters[name]; count != nil {
		text, ok = count(m.used+m.share*time.Since(m.since).Seconds(), time.Since(m.began).Seconds()), true
	}
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}

	return fstest.MapFS{name: {Data: []byte(text)}}.Open(name)
}

func (m *machine) uses(share float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += m.share * time.Since(m.since).Seconds()
	m.since, m.share = time.Now(), share
}

func (m *machine) set(path, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[path] = text
}

// reasons collects what is waited for.
type reasons struct {
	mu  sync.Mutex
	all []string
}

func (r *reasons) tell(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, why)
}

func TestPressureDelaysAndNamesItself(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	tests := []struct {
		name    string
		busy    func(m *machine)
		calm    func(m *machine)
		because string
	}{
		{"processors of the node", func(m *machine) { m.uses(0.8) }, func(m *machine) { m.uses(0.1) }, "processors of the node 80 % in use, calm is below 70 %"},
		{"memory of the node", func(m *machine) {
			m.set("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:  50 kB\n")
		}, func(m *machine) {
			m.set("proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:  500 kB\n")
		}, "memory of the node 95 % in use"},
		{"memory of the cgroup, version 2", func(m *machine) {
			m.set("sys/fs/cgroup/memory.max", fmt.Sprintln(100*mb))
			m.set("sys/fs/cgroup/memory.current", fmt.Sprintln(95*mb))
		}, func(m *machine) {
			m.set("sys/fs/cgroup/memory.stat", fmt.Sprintln("inactive_file", 60*mb)) // it was page cache
		}, "memory of our cgroup 95 % in use"},
		{"memory of the cgroup, version 1", func(m *machine) {
			m.set("sys/fs/cgroup/memory/memory.limit_in_bytes", fmt.Sprintln(100*mb))
			m.set("sys/fs/cgroup/memory/memory.usage_in_bytes", fmt.Sprintln(95*mb))
		}, func(m *machine) {
			m.set("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
		}, "memory of our cgroup 95 % in use"},
		{"processor pressure of the node", func(m *machine) {
			m.set("proc/pressure/cpu", "some avg10=31.50 avg60=1.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
		}, func(m *machine) {
			m.set("proc/pressure/cpu", "some avg10=1.50 avg60=31.00 avg300=0.00 total=1\nfull avg10=99.00\n")
		}, "processor pressure of the node 31.5 %, calm is below 20.0 %"},
		{"memory pressure of the cgroup", func(m *machine) {
			m.set("sys/fs/cgroup/memory.pressure", "some avg10=20.00 avg60=1.00 avg300=0.00 total=1\n")
		}, func(m *machine) {
			m.set("sys/fs/cgroup/memory.pressure", "unreadable")
		}, "memory pressure of our cgroup 20.0 %"},
		{"processors of the cgroup, version 2", func(m *machine) {
			m.set("sys/fs/cgroup/cpu.max", "50000 100000")
			m.counters["sys/fs/cgroup/cpu.stat"] = func(used, _ float64) string { return fmt.Sprintf("usage_usec %d\nuser_usec 1\n", int(1e6*used)) }
			m.uses(0.4) // 80 % of half a processor
		}, func(m *machine) { m.set("sys/fs/cgroup/cpu.max", "max 100000") }, "processors of our cgroup 80 % in use"},
		{"processors of the cgroup, version 1", func(m *machine) {
			m.set("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000")
			m.set("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
			m.counters["sys/fs/cgroup/cpuacct/cpuacct.usage"] = func(used, _ float64) string { return fmt.Sprint(int(1e9 * used)) }
			m.uses(0.4)
		}, func(m *machine) { m.set("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1") }, "processors of our cgroup 80 % in use"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, seen, began := newMachine(), &reasons{}, time.Now()
				test.busy(m)
				time.AfterFunc(20*time.Second, func() { test.calm(m) })
				watch := calm.New(calm.DefaultConfig(), m)
				if err := watch.Until(t.Context(), calm.Go, began.Add(calm.DefaultConfig().Latest.Std()), seen.tell); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < 20*time.Second || took > 22*time.Second {
					t.Errorf("waited %v, expected until the pressure was over after 20s", took)
				}
				if len(seen.all) < 2 || !strings.HasPrefix(seen.all[0], test.because) || seen.all[len(seen.all)-1] != "" {
					t.Errorf("told %q, expected %q first and nothing last", seen.all, test.because)
				}
			})
		})
	}
}

// TestPressureDelaysButNotForEver is the other side: however long the pressure lasts, the work is done.
func TestPressureDelaysButNotForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, seen, began := newMachine(), &reasons{}, time.Now()
		m.uses(1)
		watch := calm.New(calm.DefaultConfig(), m)
		if err := watch.Until(t.Context(), calm.Go, began.Add(calm.DefaultConfig().Latest.Std()), seen.tell); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 10*time.Minute {
			t.Errorf("waited %v, expected latest", took)
		}
		if len(seen.all) != 2 || seen.all[1] != "" {
			t.Errorf("told %q", seen.all)
		}
	})
}

func TestACalmMachineDelaysNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config func(c *calm.Config)
		with   func(m *machine)
		most   time.Duration
	}{
		{"nothing in use", func(*calm.Config) {}, func(*machine) {}, time.Second},
		{"just below the bounds", func(*calm.Config) {}, func(m *machine) { m.uses(0.69) }, time.Second},
		{"nothing can be read", func(*calm.Config) {}, func(m *machine) { m.counters = nil }, time.Second},
		{"every measure is off", func(c *calm.Config) { *c = calm.Config{Latest: units.Duration(time.Minute)} }, func(m *machine) {
			m.uses(1)
			m.set("proc/pressure/cpu", "some avg10=99.00 avg60=1.00")
		}, time.Second},
		{"nothing is waited for", func(c *calm.Config) { c.Latest = 0 }, func(m *machine) { m.uses(1) }, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				config := calm.DefaultConfig()
				test.config(&config)
				m, seen, began := newMachine(), &reasons{}, time.Now()
				test.with(m)
				watch := calm.New(config, m)
				if err := watch.Until(t.Context(), calm.Go, began.Add(config.Latest.Std()), seen.tell); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > test.most || len(seen.all) > 0 {
					t.Errorf("waited %v because %q, expected at most %v, the time of one look", took, seen.all, test.most)
				}
			})
		})
	}
}

// TestZonesHaveHysteresis walks a machine up and down and asks in each state whether work may begin, and whether it may go on.
func TestZonesHaveHysteresis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMachine()
		watch := calm.New(calm.DefaultConfig(), m)
		passes := func(most calm.Zone) bool {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()

			return watch.Until(ctx, most, time.Now().Add(time.Hour), func(string) {}) == nil
		}
		for _, step := range []struct {
			share          float64
			begins, goesOn bool
		}{
			{0.5, true, true},
			{0.68, true, true}, // not yet over
			{0.75, false, true},
			{0.68, false, true}, // not yet below
			{0.5, true, true},
			{0.97, false, false},
			{0.9, false, false}, // not yet below
			{0.8, false, true},
			{0.1, true, true},
		} {
			m.uses(step.share)
			time.Sleep(4 * time.Second) // a look back that was all in this state
			passes(calm.Suspend)
			time.Sleep(1100 * time.Millisecond)
			if got := []bool{passes(calm.Go), passes(calm.Delay)}; !slices.Equal(got, []bool{step.begins, step.goesOn}) {
				t.Errorf("at %.2f: begins and goes on %v, expected %v, %v", step.share, got, step.begins, step.goesOn)
			}
		}
	})
}

func TestUntilEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, seen := newMachine(), &reasons{}
		m.uses(1)
		gone := errors.New("the backend is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(90*time.Second, func() { cancel(gone) })
		began := time.Now()
		if err := calm.New(calm.DefaultConfig(), m).Until(ctx, calm.Go, began.Add(time.Hour), seen.tell); !errors.Is(err, gone) || time.Since(began) != 90*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		if last := seen.all[len(seen.all)-1]; last != "" {
			t.Errorf("it is still told to wait because %q", last)
		}
	})
}

func TestThisMachineCanBeRead(t *testing.T) {
	t.Parallel()
	config := calm.DefaultConfig()
	config.Latest = 0
	watch := calm.New(config, nil)
	if err := watch.Until(t.Context(), calm.Go, time.Now(), func(why string) { t.Errorf("waits because %s", why) }); err != nil {
		t.Error(err)
	}
}

func TestZonesHaveWords(t *testing.T) {
	t.Parallel()
	words := []string{}
	for _, zone := range calm.ZoneValues() {
		text, err := zone.MarshalText()
		if err != nil {
			t.Error(err)
		}
		words = append(words, string(text))
	}
	if want := []string{"go", "delay", "suspend"}; !slices.Equal(words, want) {
		t.Errorf("zones %v, expected %v", words, want)
	}
}
