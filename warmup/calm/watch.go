package calm

import (
	"context"
	"io/fs"
	"os"
	"sync"
	"time"
)

const (
	// interval is the time between two looks. Shorter ones would see single requests as pressure.
	interval = time.Second
	// stale is the age from which on a look says nothing about the processors now.
	stale = 5 * time.Second
)

// Watch looks at the machine while somebody asks, and only then. Its methods are safe for concurrent use.
type Watch struct {
	config Config
	files  files

	mu sync.Mutex
	// last is the latest look at the processors; its zero value says that there was none.
	last  usage
	known bool
	zone  Zone
	why   string
}

// New returns a Watch over the files below root; nil: those of this machine.
func New(config Config, root fs.FS) *Watch {
	if root == nil {
		root = os.DirFS("/")
	}

	return &Watch{config: config, files: files{root}}
}

// Until waits until the zone is at most the one given, or the time has come from which on nothing is waited for. It calls tell whenever the reason changes
// for which it waits, and with "" once it has waited and the wait is over. The error is the cause of ctx.
func (w *Watch) Until(ctx context.Context, most Zone, latest time.Time, tell func(why string)) error {
	told := ""
	for {
		zone, why, known := w.look()
		over := (known && zone <= most) || !time.Now().Before(latest)
		if over {
			why = ""
		}
		if why != told {
			told = why
			tell(why)
		}
		if over {
			return context.Cause(ctx)
		}
		timer := time.NewTimer(min(interval, time.Until(latest)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if told != "" {
				tell("")
			}

			return context.Cause(ctx)
		}
	}
}

// look returns the zone, from the latest look if that is young enough. It is not known before the second look: the use of processors is a difference.
func (w *Watch) look() (zone Zone, why string, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	age := time.Since(w.last.at)
	if age < interval {
		return w.zone, w.why, w.known
	}
	now := w.files.usage()
	before := w.last
	w.last, w.known = now, age <= stale
	if w.known {
		w.zone, w.why = w.judge(now.since(before))
	} else {
		w.why = ""
	}

	return w.zone, w.why, w.known
}

// judge returns the zone and what it is for.
func (w *Watch) judge(processors []measure) (Zone, string) {
	zone, why := Go, ""
	reach := func(at Zone, bound float64, measures []measure) {
		for _, m := range measures {
			if at > zone && m.over(bound, w.zone >= at) {
				zone, why = at, m.says(bound)
			}
		}
	}
	reach(Suspend, w.config.SuspendCPU, processors)
	reach(Delay, w.config.CPU, processors)
	reach(Delay, w.config.Memory, w.files.memory())
	reach(Delay, w.config.PSI, w.files.pressures())

	return zone, why
}
