package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// meter takes the samples of one job. It is for one goroutine.
type meter struct {
	job   job
	begin time.Duration
	end   time.Duration

	samples   []time.Duration
	outcome   result
	processor time.Duration
	begun     bool
}

// newMeter measures from when the job's warm-up will be over.
func newMeter(j job) *meter {
	now := monotonic()

	return &meter{job: j, begin: now + j.Warm, end: now + j.Warm + j.For, samples: make([]time.Duration, 0, 1<<16)}
}

// tick begins the measurement once it is time, and says whether that is over.
func (m *meter) tick(now time.Duration) (over bool, err error) {
	if !m.begun && now >= m.begin {
		m.begun, m.begin = true, now
		m.end = now + m.job.For
		m.processor, err = processorTime(m.job.Processes)
	}

	return m.begun && now >= m.end, err
}

// add takes what began, or was due, at since and ended now.
func (m *meter) add(since, now time.Duration) {
	if m.begun && now < m.end && since >= m.begin {
		m.samples = append(m.samples, now-since)
	}
	if m.begun && now < m.end {
		m.outcome.Done++
	}
}

// fail takes what came to nothing.
func (m *meter) fail(err error) {
	if m.outcome.Failed == 0 {
		m.outcome.Failure = err.Error()
	}
	m.outcome.Failed++
}

// finish returns the figures.
func (m *meter) finish() (result, error) {
	used, err := processorTime(m.job.Processes)
	if err != nil {
		return result{}, err
	}
	r := m.outcome
	r.Processor = used - m.processor
	r.Seconds = (monotonic() - m.begin).Seconds()
	if len(m.samples) > 0 {
		r.P50, r.P99 = percentile(m.samples, 50), percentile(m.samples, 99)
	}

	return r, nil
}

// patience is how long a job may take beyond the time that it measures.
const patience = 10 * time.Second

// perform does one job.
func perform(ctx context.Context, j job) (result, error) {
	if !slices.Contains(sizes, j.Size) || j.Concurrency < 1 || j.For <= 0 {
		return result{}, fmt.Errorf("job: expected a size out of %v, a concurrency and a time, got %+v", sizes, j)
	}
	ctx, cancel := context.WithTimeout(ctx, j.Warm+j.For+patience)
	defer cancel()
	switch j.Kind {
	case closedLoop:
		return closed(j)
	case openLoop:
		return open(j)
	case tokens:
		return listen(j)
	case grpcUnary, grpcStream:
		return call(ctx, j)
	default:
		return result{}, fmt.Errorf("job: no such kind %q", j.Kind)
	}
}
