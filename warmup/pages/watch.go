package pages

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// lookEvery is how often the watch looks. A reader that it did not see yet loses half of the disk for as long.
	lookEvery = 10 * time.Millisecond
	// pressed is the share of time in which somebody waits for memory from which on a Prefetch pauses; below half of that it goes on.
	pressed = 0.2
	// pressureEvery is over how long that share is taken.
	pressureEvery = 100 * time.Millisecond
	// busy is what others read from the disk before a Prefetch gives way to them, in bytes a second, on a disk that gives one less than four times as much.
	busy = 64 << 20
	// quiet is for how long others must have read less before it goes on.
	quiet = 100 * time.Millisecond
)

// watch pauses a Prefetch while somebody waits for memory, and while somebody reads the same disk past the page cache: whoever does that gains nothing from it and would
// get half of the disk.
type watch struct {
	prefetch *Prefetch
	pressure pressure

	mu    sync.Mutex
	rival *rival // nil where the disk is unknown
}

// turn takes the file that is read next; nil: none.
func (w *watch) turn(from *source, info os.FileInfo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rival != nil {
		w.rival.from.release()
	}
	if w.rival = nil; from == nil {
		return
	}
	device, err := deviceOf(info)
	if err != nil {
		return
	}
	from.users.Add(1)
	w.rival = &rival{device: device, from: from, size: info.Size(), since: time.Now()}
	w.rival.read, w.rival.cached = w.rival.now()
}

func (w *watch) run(ctx context.Context) {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			now := time.Now()
			why := w.pressure.look(now)
			if w.mu.Lock(); why == "" && w.rival != nil {
				why = w.rival.look(time.Now())
			}
			w.mu.Unlock()
			w.prefetch.brake.set(why)
			// To look at a file of 100 GiB takes a while.
			timer.Reset(max(lookEvery, 20*time.Since(now)))
		case <-ctx.Done():
			w.prefetch.brake.set("")

			return
		}
	}
}

// rival compares what the disk has read with what has come into the page cache.
type rival struct {
	device string
	from   *source
	size   int64

	since        time.Time
	read, cached int64
	// best is the most that came into the page cache in a second.
	best      float64
	yielding  bool
	lastHeavy time.Time
}

// look says that others read the disk past the page cache, if they do.
func (r *rival) look(now time.Time) string {
	read, cached := r.now()
	seconds := now.Sub(r.since).Seconds()
	ours := float64(cached-r.cached) / seconds
	others := float64(read-r.read)/seconds - max(0, ours)
	r.since, r.read, r.cached = now, read, cached
	r.best = max(r.best, ours)
	if others > max(busy, r.best/4) {
		r.yielding, r.lastHeavy = true, now
	} else if now.Sub(r.lastHeavy) > quiet {
		r.yielding = false
	}
	if r.yielding {
		return "something else reads much from the same disk, and not what is being read into the page cache"
	}

	return ""
}

// now returns the bytes that the disk has read since it is there, and those of the file in the page cache.
func (r *rival) now() (read, cached int64) {
	content, err := os.ReadFile(r.device)
	if err != nil {
		return r.read, r.cached
	}
	const sectors, sectorSize = 2, 512
	if fields := strings.Fields(string(content)); len(fields) > sectors {
		count, _ := strconv.ParseInt(fields[sectors], 10, 64)
		read = count * sectorSize
	}

	return read, look(r.from.file, Range{0, r.size}).pages * pageSize
}

// pressure watches for how long somebody had to wait for memory.
type pressure struct {
	since   time.Time
	stalled [2]time.Duration
	pressed bool
}

// look says that there is memory pressure, if there is.
func (p *pressure) look(now time.Time) string {
	stalled := [2]time.Duration{stalledBy("/proc/pressure/memory"), stalledBy("/sys/fs/cgroup/memory.pressure")}
	passed := now.Sub(p.since)
	if p.since.IsZero() || passed < pressureEvery {
		if p.since.IsZero() {
			p.since, p.stalled = now, stalled
		}
	} else {
		most := max(stalled[0]-p.stalled[0], stalled[1]-p.stalled[1])
		threshold := pressed
		if p.pressed {
			threshold /= 2
		}
		p.pressed = float64(most) > threshold*float64(passed)
		p.since, p.stalled = now, stalled
	}
	if p.pressed {
		return "processes wait for memory"
	}

	return ""
}

// stalledBy returns for how long somebody has waited; 0 where the kernel does not say.
func stalledBy(path string) time.Duration {
	content, err := os.ReadFile(path) //nolint:gosec // one of two
	if err != nil {
		return 0
	}
	some, _, _ := strings.Cut(string(content), "\n")
	_, total, _ := strings.Cut(some, "total=")
	microseconds, _ := strconv.ParseInt(total, 10, 64)

	return time.Duration(microseconds) * time.Microsecond
}
