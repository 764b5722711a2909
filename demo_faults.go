package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/coldstart"
)

// faults shows three things that happen to warm backends.
func (d *demo) faults(ctx context.Context, pair *coldstart.Pair) error {
	d.screen.Phase("kill -9 of the backend under load")
	restart, err := d.stage.Restart(ctx, pair)
	if err != nil {
		return err
	}
	d.report.Restart = &restart
	d.screen.Result(fmt.Sprintf("%d in flight failed, %d held, %d refused, ready again after %.1f s", restart.InFlightFailed, restart.Held, restart.Refused, restart.ReadyAgainS))

	if err := d.long(ctx, pair); err != nil {
		return err
	}

	return d.hang(ctx, pair)
}

// long shows a healthy backend that is silent for longer than the rule that finds hanging ones waits.
func (d *demo) long(ctx context.Context, pair *coldstart.Pair) error {
	d.screen.Phase("a long answer of a healthy backend, nothing else in flight")
	relayed, err := d.stage.StartRelayed(ctx, pair.BackendAddress)
	if err != nil {
		return err
	}
	defer func() { _ = relayed.Stop() }()
	request, err := d.longRequest(ctx, pair)
	if err != nil {
		return err
	}
	long, err := d.stage.Long(ctx, relayed, request)
	if err != nil {
		return err
	}
	d.report.Long = &long
	verdict := "left alone"
	if !long.LeftAlone {
		verdict = "NOT left alone"
	}
	d.screen.Result(fmt.Sprintf("answered after %.1f s, %s", long.AnswerS, verdict))

	return nil
}

// hang shows a backend that says it is healthy and answers nothing.
func (d *demo) hang(ctx context.Context, pair *coldstart.Pair) error {
	d.screen.Phase("health says 200 while inferences hang (simulated by a relay)")
	relayed, err := d.stage.StartRelayed(ctx, pair.BackendAddress)
	if err != nil {
		return err
	}
	defer func() { _ = relayed.Stop() }()
	hang, err := d.stage.Hang(ctx, relayed)
	if err != nil {
		return err
	}
	d.report.Hang = &hang
	d.screen.Result(fmt.Sprintf("noticed after %.1f s (the server's own health said %d), ready again %.1f s after the fault ended", hang.NoticedS, hang.HealthSaid, hang.ReadyAgainS))

	return nil
}

// longRequest returns one request that is real work for longer than the rule waits: a batch whose size is found by asking for a smaller one directly.
func (d *demo) longRequest(ctx context.Context, pair *coldstart.Pair) (coldstart.Request, error) {
	took, err := d.stage.Ask(ctx, pair.BackendAddress, d.batch(probeBatch))
	if err != nil {
		return coldstart.Request{}, err
	}

	return d.batch(min(int(probeBatch*longAnswer/took), longestBatch)), nil
}

// batch returns a request of so many images.
func (d *demo) batch(size int) coldstart.Request {
	images := make([]int, size)
	for at := range images {
		images[at] = at % len(d.answers)
	}

	return d.classify(images)
}

const (
	// longAnswer is about how long the long request should take; probeBatch tells how long an image takes in a large batch; longestBatch bounds the body.
	longAnswer   = 16 * time.Second
	probeBatch   = 10_000
	longestBatch = 150_000
)
