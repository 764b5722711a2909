package warmup_test

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/calm"
)

// noisy is a node whose processors are in use by a share that can be set.
type noisy struct {
	mu          sync.Mutex
	share, busy float64
	began, last time.Time
}

func newNoisy(share float64) *noisy { return &noisy{share: share, began: time.Now(), last: time.Now()} }

func (n *noisy) Open(name string) (fs.File, error) {
	if name != "proc/stat" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	n.uses(-1)
	n.mu.Lock()
	defer n.mu.Unlock()
	text := fmt.Sprintf("cpu %d 0 0 %d 0\n", int(1e6*n.busy), int(1e6*(time.Since(n.began).Seconds()-n.busy)))

	return fstest.MapFS{name: {Data: []byte(text)}}.Open(name)
}

// uses changes the share; one below 0 leaves it.
func (n *noisy) uses(share float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy += n.share * time.Since(n.last).Seconds()
	n.last = time.Now()
	if share >= 0 {
		n.share = share
	}
}

func calmly(node *noisy, timeout time.Duration) warmup.Settings {
	return warmup.Settings{
		Calm: calm.New(calm.DefaultConfig(), node), Models: []string{"m"},
		Config: warmup.Config{Trigger: warmup.TriggerCalm, Pressure: calm.DefaultConfig(), Timeout: units.Duration(timeout)},
	}
}

// TestTriggerCalmDelaysTheFirstInference has a busy node that is calm after five minutes, which is longer than the run may take: waiting is no part of it.
func TestTriggerCalmDelaysTheFirstInference(t *testing.T) {
	for _, test := range []struct {
		trigger     warmup.Trigger
		least, most time.Duration
	}{{warmup.TriggerCalm, 5 * time.Minute, 6 * time.Minute}, {warmup.TriggerStartup, 0, 10 * time.Second}} {
		t.Run(test.trigger.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node, began := newNoisy(0.8), time.Now()
				f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(10 * ms)}})
				settings := calmly(node, 2*time.Minute)
				settings.Config.Trigger = test.trigger
				runner, seen, log := newRunner(t, f, settings)
				time.AfterFunc(5*time.Minute, func() {
					if report := runner.Report(); report.Running && !strings.HasPrefix(report.PutOff, "processors of the node 80 %") {
						t.Errorf("the report says %q", report.PutOff)
					}
					node.uses(0.2)
				})
				report, err := runner.Run(anHour(t))
				if err != nil || model(t, report, "m").Outcome != warmup.Warm || report.PutOff != "" {
					t.Errorf("got %+v, %v", report.Models, err)
				}
				if took := time.Since(began); took < test.least || took > test.most {
					t.Errorf("took %v, expected %v to %v", took, test.least, test.most)
				}
				put := seen.of(warmup.PutOff)
				if test.trigger == warmup.TriggerStartup {
					if len(put) > 0 {
						t.Errorf("put off: %+v", put)
					}

					return
				}
				if len(put) < 2 || put[0].Text == "" || put[len(put)-1].Text != "" || strings.Count(log.String(), "waits for a calm machine") != 1 {
					t.Errorf("put off: %+v\n%s", put, log)
				}
			})
		})
	}
}

// TestTriggerCalmIsNotForEver has a node that is never calm.
func TestTriggerCalmIsNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := newFake(t, map[string]*fakeModel{"m": {infer: steadily(10 * ms)}})
		runner, _, _ := newRunner(t, f, calmly(newNoisy(1), time.Minute))
		report, err := runner.Run(anHour(t))
		if err != nil || model(t, report, "m").Outcome != warmup.Warm {
			t.Errorf("got %+v, %v", report.Models, err)
		}
		if took := time.Since(began); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("took %v, expected that it begins after 10 minutes", took)
		}
	})
}

// TestPressureSuspendsAWarmupThatHasBegun has a node that becomes busy, then too busy, then calm.
func TestPressureSuspendsAWarmupThatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, began := newNoisy(0.1), time.Now()
		var asked []time.Duration
		f := newFake(t, map[string]*fakeModel{"m": {shape: "[1]", infer: func(int, int) (time.Duration, int, string) {
			asked = append(asked, time.Since(began))

			return time.Second, 200, ""
		}}})
		runner, _, _ := newRunner(t, f, calmly(node, time.Minute))
		time.AfterFunc(5*time.Second, func() { node.uses(0.8) })
		time.AfterFunc(10*time.Second, func() { node.uses(1) })
		time.AfterFunc(130*time.Second, func() { node.uses(0.8) })
		if report, err := runner.Run(anHour(t)); err != nil || model(t, report, "m").Outcome != warmup.Warm {
			t.Errorf("got %+v, %v", report.Models, err)
		}
		count := func(from, to time.Duration) (n int) {
			for _, at := range asked {
				if at >= from && at < to {
					n++
				}
			}

			return n
		}
		if n := count(5*time.Second, 10*time.Second); n < 4 {
			t.Errorf("%d requests while the node was busy, expected that it goes on", n)
		}
		if n := count(13*time.Second, 130*time.Second); n > 0 {
			t.Errorf("%d requests while the node was too busy", n)
		}
		if n := count(130*time.Second, time.Hour); n == 0 {
			t.Error("no requests after it")
		}
	})
}
