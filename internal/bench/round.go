package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// bench is one run.
type bench struct {
	site *site
	// machine is as it was before anything began.
	machine machine
	arms    []arm
	cases   []benchCase
	rounds  int
	// scale stretches the times that are measured.
	scale    float64
	figures  figures
	failures []failure
	// say tells a person how far it is.
	say func(format string, arguments ...any)
}

// failure is a measurement that came to nothing.
type failure struct {
	Arm   string `json:"arm"`
	Case  string `json:"case"`
	Round int    `json:"round"`
	Error string `json:"error"`
}

// settle is how long a fresh proxy has before its memory is read.
const settle = 500 * time.Millisecond

// run measures every arm in every case in every round. All arms of a round live side by side and take turns case by case, so that what else the machine does meets them alike;
// each round begins with another arm, and with fresh processes, so that neither an order nor the luck of one process decides.
func (b *bench) run(ctx context.Context) error {
	origin, at, err := startSelf(ctx, "origin")
	if err != nil {
		return err
	}
	defer origin.stop()
	b.site.origin = at
	b.figures = figures{}
	for round := range b.rounds {
		began := time.Now()
		if err := b.round(ctx, round); err != nil {
			return err
		}
		b.say("round %d of %d: %.0f s\n", round+1, b.rounds, time.Since(began).Seconds())
	}

	return nil
}

func (b *bench) round(ctx context.Context, round int) error {
	var runners []*runner
	defer func() {
		for _, r := range runners {
			r.down()
		}
	}()
	for _, a := range rotated(b.arms, round) {
		r, err := a.up(ctx, b.site)
		if err != nil {
			return err
		}
		runners = append(runners, r)
	}
	if err := rest(ctx, settle); err != nil {
		return err
	}
	for _, c := range b.cases {
		for _, r := range runners {
			if !r.arm.takesPart(c.name) {
				continue
			}
			if err := b.measure(ctx, r, c, round); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				b.failures = append(b.failures, failure{Arm: r.arm.name, Case: c.name, Round: round + 1, Error: err.Error()})
				b.say("%s, %s, round %d: %v\n", r.arm.name, c.name, round+1, err)
			}
		}
	}

	return nil
}

// measure measures one arm in one case.
func (b *bench) measure(ctx context.Context, r *runner, c benchCase, round int) error {
	var got result
	pids := r.pids()
	if c.job.Kind != "" {
		j := c.job
		j.For = time.Duration(float64(j.For) * b.scale)
		j.Warm = max(50*time.Millisecond, time.Duration(float64(j.Warm)*min(1, b.scale)))
		j.Address, j.Processes = r.at.Plain, pids
		if c.grpc {
			j.Address = r.at.GRPC
		}
		var err error
		if got, err = generate(ctx, j); err != nil {
			return err
		}
	}
	for _, y := range c.yields {
		switch {
		case y.of == nil && pids != nil:
			bytes, err := resident(pids)
			if err != nil {
				return err
			}
			b.figures.put(r.arm.name, y.id, round, float64(bytes)/1e6)
		case y.of == nil || (y.unit == "ms" && pids == nil): // no proxy has no memory and no processor time
		default:
			b.figures.put(r.arm.name, y.id, round, y.of(got))
		}
	}

	return nil
}

// generate lets a load generator of its own process do the job. Requests that failed are an error: figures beside them would mean nothing.
func generate(ctx context.Context, j job) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, j.Warm+j.For+2*patience)
	defer cancel()
	text, err := json.Marshal(j)
	if err != nil {
		return result{}, err
	}
	command, err := self("load")
	if err != nil {
		return result{}, err
	}
	load, err := launch("load", nil, bytes.NewReader(text), command...)
	if err != nil {
		return result{}, err
	}
	defer load.stop()
	var got result
	if err := load.read(ctx, &got); err != nil {
		return result{}, err
	}
	if got.Failed > 0 {
		return result{}, fmt.Errorf("expected no failed request, got %d, the first: %s", got.Failed, got.Failure)
	}
	if got.Done == 0 {
		return result{}, fmt.Errorf("expected answers within %s, got none", j.For)
	}

	return got, nil
}

// rotated begins with another element each round.
func rotated(arms []arm, round int) []arm {
	first := round % len(arms)

	return append(append([]arm(nil), arms[first:]...), arms[:first]...)
}

// rest waits for d.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
