package warmup

import (
	"context"
	"errors"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
)

// PrefetchConfig is a step that reads files, weights above all, into the page cache, which all processes share. It does nothing for a loader that reads past it.
type PrefetchConfig struct {
	// Paths are patterns of files, read in this order: "/models/**" is all files in all folders below /models. Links are followed.
	Paths []string `yaml:"paths"`
	// Rate is the most bytes read in a second; 0: no limit.
	Rate units.Size `yaml:"rate"`
	// Memory is the most that is brought into the page cache. Beyond what the memory cgroup and the machine leave nothing is brought, whatever stands here; auto: all of that.
	Memory units.Auto[units.Size] `yaml:"memory"`
}

// Check says what is wrong with the paths.
func (p PrefetchConfig) Check() error {
	if len(p.Paths) == 0 {
		return errors.New("prefetch names no paths, expected at least one such as /models/**")
	}
	for _, path := range p.Paths {
		if err := pages.CheckPattern(path); err != nil {
			return err
		}
	}

	return nil
}

// prefetch reads files. That it had to stop, for lack of memory or time, is no failure: the backend reads the rest by itself, and the report says so.
func (r *Runner) prefetch(ctx context.Context, s step) error {
	reader := pages.New(pages.Settings{
		Paths: s.prefetch.Paths,
		Rate:  int64(s.prefetch.Rate),
		Limit: int64(s.prefetch.Memory.Or(0)),
		Left:  r.settings.MemoryLeft,
		Progress: func(report pages.Report) {
			r.emit(Event{Kind: Prefetching, Step: s.name, Pages: &report})
		},
	})
	r.mu.Lock()
	r.readers[s.name] = reader
	r.mu.Unlock()

	return reader.Run(ctx)
}

// read says what the latest try of a prefetch has read; nil of any other step.
func (r *Runner) read(step string) *pages.Report {
	r.mu.Lock()
	reader := r.readers[step]
	r.mu.Unlock()
	if reader == nil {
		return nil
	}
	report := reader.Report()

	return &report
}
