package pages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// chunk is what one call asks the kernel for, in bytes: of more than its own bound it reads only the beginning.
	chunk = 2 << 20
	// workers read side by side: enough to keep a disk and a network file system busy, few enough to have little under way when somebody else needs the disk.
	workers = 32
	// patience is how long a read that hangs in the storage is waited for once nobody wants it any more: it cannot be cancelled.
	patience = 2 * time.Second
	// gentle is how long a Prefetch begins gently.
	gentle = 2 * lookEvery
	// progressEvery is how often progress is told.
	progressEvery = time.Second
)

// Prefetch reads files into the page cache, once.
type Prefetch struct {
	settings Settings
	guard    guard
	brake    brake

	// fetched counts the bytes that were brought into the page cache.
	fetched atomic.Int64

	mu     sync.Mutex
	report Report
}

// stopError ends a Prefetch that is no failure: what was read is a gain, and the rest is better not read.
type stopError struct{ reason string }

func (e *stopError) Error() string { return e.reason }

// New makes a Prefetch; nothing is read yet.
func New(s Settings) *Prefetch {
	return &Prefetch{settings: s, guard: guard{left: s.Left, limit: s.Limit}}
}

// Report returns what has been done so far. It is safe for concurrent use.
func (p *Prefetch) Report() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	report := p.report
	report.Files, report.Problems = slices.Clone(report.Files), slices.Clone(report.Problems)
	report.Read, report.Paused = p.fetched.Load(), p.brake.reason()

	return report
}

// Run reads the files. It is an error when there are none, and when ctx is cancelled. That memory or, by ctx's deadline, time has run out is none: the report says so. It
// returns soon after the end of ctx, even if the storage hangs.
func (p *Prefetch) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- p.run(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(patience):
			err = fmt.Errorf("%w; the storage does not answer", context.Cause(ctx))
		}
	}
	stopped, ok := errors.AsType[*stopError](err)
	if err != nil && !ok && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		stopped, ok = &stopError{fmt.Sprintf("after %s: %v", about(p.fetched.Load()), err)}, true
	}
	if !ok {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Stopped = stopped.reason

	return nil
}

func (p *Prefetch) run(ctx context.Context) error {
	files, err := p.find(ctx)
	if err != nil {
		return err
	}
	watching, end := context.WithCancel(ctx)
	watch := &watch{prefetch: p}
	var beside sync.WaitGroup
	beside.Go(func() { watch.run(watching) })
	beside.Go(func() { p.tell(watching) })
	err = p.read(ctx, files, watch)
	end()
	beside.Wait()
	p.prove(files)

	return err
}

// find looks for the files, and begins the report.
func (p *Prefetch) find(ctx context.Context) ([]match, error) {
	files, problems, err := find(ctx, p.settings.Paths)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Problems = problems
	for _, file := range files {
		p.report.Files = append(p.report.Files, FileReport{Path: file.path, Bytes: file.info.Size()})
		p.report.Bytes += file.info.Size()
	}

	return files, err
}

// read has the workers bring one file after the other, so that the first one that a loader opens is the first one that is there.
func (p *Prefetch) read(ctx context.Context, files []match, watch *watch) error {
	jobs := make(chan job)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			var buffer []byte
			for job := range jobs {
				buffer = job.do(buffer)
			}
		})
	}
	feed := &feeder{prefetch: p, jobs: jobs, pace: pace{rate: p.settings.Rate}, watch: watch, gentle: time.Now().Add(gentle)}
	var err error
	for i, file := range files {
		if err = feed.file(ctx, i, file); err != nil {
			break
		}
	}
	close(jobs)
	group.Wait()

	return err
}

// prove notes which share of each file is in the page cache.
func (p *Prefetch) prove(files []match) {
	for i, match := range files {
		file, err := os.Open(match.path)
		if err != nil {
			continue // it is told already
		}
		size := match.info.Size()
		found := look(file, Range{0, size})
		_ = file.Close()
		if found.known {
			share := min(1, float64(found.bytes(size))/float64(size))
			p.note(i, func(f *FileReport) { f.Resident = &share })
		}
	}
}

func (p *Prefetch) note(i int, change func(*FileReport)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.report.Files[i])
}

// tell tells progress until ctx ends.
func (p *Prefetch) tell(ctx context.Context) {
	if p.settings.Progress == nil {
		return
	}
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.settings.Progress(p.Report())
		case <-ctx.Done():
			return
		}
	}
}
