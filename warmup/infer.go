package warmup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

const (
	// answerLeast and answerTimes limit a request of a shape that was answered before: a JIT compilation may take long, but not for ever. The
	// first request of a shape has the whole try, since nobody knows what it costs.
	answerLeast = 30 * time.Second
	answerTimes = 20
	// busyFirst and busyMost bound the pauses after a refusal for lack of room.
	busyFirst = 50 * time.Millisecond
	busyMost  = 2 * time.Second
)

// inference warms one model by inferences: each shape by itself until it has converged, all of them in shuffled order, then at each higher
// concurrency. What a try has reached is kept for the next one.
type inference struct {
	run   *run
	node  *node
	lane  *lane
	model string

	dialect      backend.Dialect
	described    backend.Model
	base, higher []*shape
	// answered is when the last good answer came, in nanoseconds since 1970.
	answered atomic.Int64
}

func (w *inference) try(ctx context.Context) error {
	if err := w.describe(ctx); err != nil || w.lane.unwarmed != "" {
		return err
	}
	err := w.warm(ctx)
	if err != nil && w.outOfBudget(ctx) {
		return nil
	}

	return err
}

func (w *inference) warm(ctx context.Context) error {
	// One request of each shape first: what is cold at all is paid for early, and no shape is left cold because another one took the time.
	for _, s := range w.base {
		if s.report.Seen.N > 0 || w.settled(s) {
			continue
		}
		if err := w.touch(ctx, s); err != nil {
			return w.failed(s, err)
		}
	}
	for _, s := range w.base {
		if err := w.settle(ctx, s); err != nil {
			return w.failed(s, err)
		}
	}
	if w.node.infer.Until == 0 {
		if err := w.verify(ctx); err != nil {
			return err
		}
	}
	for _, s := range w.higher {
		if err := w.pass(ctx, s); err != nil {
			return w.failed(s, err)
		}
	}
	w.keepLevel()

	return nil
}

// describe asks what the model takes and lays out its shapes, once.
func (w *inference) describe(ctx context.Context) (err error) {
	if w.base != nil {
		return nil
	}
	runner := w.run.runner
	if w.dialect, err = runner.speak(ctx); err != nil {
		return err
	}
	if w.described, err = runner.describe(ctx, w.dialect, w.model); err != nil {
		return err
	}
	if w.described.NoRequest != "" {
		w.lane.unwarmed = "no request can be made up: " + w.described.NoRequest

		return nil
	}
	w.base, w.higher = grid(w.node.step, w.described, runner.settings.Workers)
	runner.mu.Lock()
	defer runner.mu.Unlock()
	w.run.shapes = append(append(w.run.shapes, w.base...), w.higher...)

	return nil
}

// settle sends requests of one shape until its Detector knows, or the number that was asked for.
func (w *inference) settle(ctx context.Context, s *shape) error {
	for !w.settled(s) {
		if err := w.touch(ctx, s); err != nil {
			return err
		}
	}
	if s.detector.Result() == steady.NotConverged {
		w.set(s, ShapeNotConverged, "")
	}

	return nil
}

// touch sends one volley and shows it to the Detector.
func (w *inference) touch(ctx context.Context, s *shape) error {
	w.set(s, ShapeWarming, "")
	latencies, err := w.volley(ctx, s, s.concurrency)
	for _, latency := range latencies {
		s.detector.Add(latency)
	}
	w.see(s)
	if err != nil && s.guessed && s.report.Seen.N == 0 && (errors.Is(err, backend.ErrRequestRefused) || errors.Is(err, backend.ErrNoRequest)) {
		// Nothing promised that the server takes it, so nobody will send it.
		w.set(s, ShapeRefused, err.Error())

		return nil
	}

	return err
}

// outOfBudget says whether the time of the try, or of the run, is all that was missing: every shape has been answered, and the last answer is
// not overdue. Then what is not settled has not converged, and the policy for that decides; to fail would mean to begin again for ever.
func (w *inference) outOfBudget(ctx context.Context) bool {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return false
	}
	var slowest time.Duration
	for _, s := range w.base {
		if s.report.Seen.N == 0 && s.report.State != ShapeRefused {
			return false
		}
		slowest = max(slowest, s.report.Seen.Slowest)
	}
	if time.Since(time.Unix(0, w.answered.Load())) > 2*slowest+time.Second {
		return false
	}
	for _, s := range slices.Concat(w.base, w.higher) {
		if !s.report.State.warm() && s.report.State != ShapeRefused && s.report.State != ShapeNotConverged {
			w.set(s, ShapeNotConverged, context.Cause(ctx).Error())
		}
	}
	w.keepLevel()

	return true
}

func (w *inference) settled(s *shape) bool {
	if s.report.State == ShapeRefused || s.report.State == ShapeNotConverged {
		return true
	}
	if until := int(w.node.infer.Until); until > 0 {
		if s.report.Seen.N < until {
			return false
		}
		w.set(s, ShapeCounted, "")

		return true
	}

	return s.detector.Result() != steady.Undecided
}

// verify sends requests of all shapes in shuffled order. A shape that moved or spiked goes back; those that did not are through.
func (w *inference) verify(ctx context.Context) error {
	for round := 1; ; round++ {
		var open []*shape
		for _, s := range w.base {
			if s.detector.Result().Steady() && !s.report.State.warm() {
				open = append(open, s)
			}
		}
		if len(open) == 0 {
			return nil
		}
		if round > sweepRounds {
			for _, s := range open {
				s.detector.Reject()
				w.see(s)
				w.set(s, ShapeNotConverged, fmt.Sprintf("it moved in each of %d verifications", sweepRounds))
			}

			return nil
		}
		if err := w.sweep(ctx, open); err != nil {
			return err
		}
		for _, s := range open {
			if err := w.settle(ctx, s); err != nil {
				return w.failed(s, err)
			}
		}
	}
}

// sweep is one round of verification.
func (w *inference) sweep(ctx context.Context, open []*shape) error {
	order := make([]*shape, 0, len(open)*sweepRequests)
	for range sweepRequests {
		order = append(order, open...)
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] }) //nolint:gosec // an order needs no secrecy
	seen := map[*shape][]time.Duration{}
	for _, s := range order {
		latencies, err := w.volley(ctx, s, s.concurrency)
		if err != nil {
			return w.failed(s, err)
		}
		seen[s] = append(seen[s], latencies...)
	}
	for _, s := range open {
		verified := s.detector.Verify(seen[s])
		w.run.runner.mu.Lock()
		s.report.Rounds++
		w.run.runner.mu.Unlock()
		w.see(s)
		switch {
		case verified && s.detector.Result() == steady.Multimodal:
			w.set(s, ShapeMultimodal, "")
		case verified:
			w.set(s, ShapeConverged, "")
		}
	}

	return nil
}

// pass sends volleys of a shape at a higher concurrency, so that every process behind the port gets its share. A request that waits for
// the others of its volley is no cold event; one that takes longer than all of them together is, and the pass is repeated.
func (w *inference) pass(ctx context.Context, s *shape) error {
	if s.report.State.warm() || s.report.State == ShapeNotConverged || s.report.State == ShapeRefused {
		return nil
	}
	single := w.base[slices.IndexFunc(w.base, func(b *shape) bool { return b.shape == s.shape })]
	if single.report.State == ShapeRefused {
		w.set(s, ShapeRefused, single.report.Text)

		return nil
	}
	limit := time.Duration(s.concurrency) * single.detector.Limit()
	volleys := passVolleys
	if until := int(w.node.infer.Until); until > 0 {
		volleys = (until + s.concurrency - 1) / s.concurrency
	}
	var all []time.Duration
	w.set(s, ShapeWarming, "")
	for range sweepRounds {
		clean := true
		for range volleys {
			latencies, err := w.volley(ctx, s, s.concurrency)
			if err != nil {
				return err
			}
			clean = clean && (limit == 0 || slices.Max(latencies) <= limit)
			all = append(all, latencies...)
		}
		w.summarise(s, all, limit)
		switch {
		case w.node.infer.Until > 0:
			w.set(s, ShapeCounted, "")

			return nil
		case clean:
			w.set(s, ShapeConverged, "")

			return nil
		}
	}
	w.set(s, ShapeNotConverged, fmt.Sprintf("requests took longer than %v in each of %d passes", limit, sweepRounds))

	return nil
}

// volley sends n requests at once, each over a connection of its own, and returns the latencies of those that were answered well.
func (w *inference) volley(ctx context.Context, s *shape, n int) ([]time.Duration, error) {
	if n == 1 {
		latency, err := w.send(ctx, s)
		if err != nil {
			return nil, err
		}

		return []time.Duration{latency}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex
	var latencies []time.Duration
	var first error
	for range n {
		group.Go(func() {
			latency, err := w.send(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				latencies = append(latencies, latency)
			case first == nil:
				first = err
				cancel()
			}
		})
	}
	group.Wait()

	return latencies, first
}

// send makes one inference. A backend without room is asked again, for as long as the try goes on: while it warms up, that is no failure.
func (w *inference) send(ctx context.Context, s *shape) (time.Duration, error) {
	runner := w.run.runner
	request, err := w.dialect.Request(w.described, s.shape, runner.seeds.Add(1))
	if err != nil {
		return 0, err
	}
	act := "infer " + w.model + " " + s.report.Shape()
	pause := back{next: busyFirst, limit: busyMost}
	for {
		answer, err := w.ask(ctx, s, act, request)
		if err == nil {
			err = w.dialect.Check(act, answer, w.node.expect())
		}
		busy := errors.Is(err, backend.ErrBusy)
		runner.mu.Lock()
		if busy {
			w.run.busy++
		} else if err == nil {
			w.run.requests++
		}
		runner.mu.Unlock()
		if err == nil {
			w.answered.Store(time.Now().UnixNano())
		}
		if !busy {
			return answer.Timing.Total, err
		}
		if stopped := pause.off(ctx); stopped != nil {
			return 0, fmt.Errorf("%w; last answer: %w", stopped, err)
		}
	}
}

// ask sends a request within the limit of its shape.
func (w *inference) ask(ctx context.Context, s *shape, act string, request backend.Request) (backend.Answer, error) {
	w.run.runner.mu.Lock()
	slowest := s.report.Seen.Slowest
	w.run.runner.mu.Unlock()
	if slowest > 0 {
		limit := max(answerLeast, answerTimes*slowest)
		limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
		defer cancel()
		ctx = limited
	}
	answer, err := w.run.runner.settings.Client.Do(ctx, request)
	if failed, ok := errors.AsType[*backend.Error](err); ok {
		failed.Act = act
	}

	return answer, err
}

func (w *inference) failed(s *shape, err error) error {
	w.set(s, ShapeFailed, err.Error())

	return err
}

func (w *inference) set(s *shape, state ShapeState, text string) {
	w.run.runner.mu.Lock()
	defer w.run.runner.mu.Unlock()
	s.report.State, s.report.Text = state, text
}

func (w *inference) see(s *shape) {
	seen := s.detector.Report()
	w.run.runner.mu.Lock()
	defer w.run.runner.mu.Unlock()
	s.report.Seen = seen
}

// summarise reports a pass in the words of a Detector.
func (w *inference) summarise(s *shape, all []time.Duration, limit time.Duration) {
	seen := steady.Report{N: len(all), First: all[0], Slowest: slices.Max(all)}
	for _, latency := range all {
		if limit > 0 && latency > limit {
			seen.ColdEvents++
			seen.Clean = 0
		} else {
			seen.Clean++
		}
	}
	seen.UpperColdRate = steady.UpperColdRate(seen.Clean)
	last := slices.Clone(all[max(0, len(all)-s.concurrency*passVolleys):])
	slices.Sort(last)
	seen.Level = last[len(last)/2]
	seen.P95 = last[(len(last)*95-1)/100]
	if seen.ColdEvents < len(all) && seen.Clean > 0 {
		seen.Result = steady.Converged
	}
	w.run.runner.mu.Lock()
	defer w.run.runner.mu.Unlock()
	s.report.Seen = seen
}

// keepLevel notes the warm level of the model's cheapest shape, for those who ask after the run.
func (w *inference) keepLevel() {
	w.run.runner.mu.Lock()
	defer w.run.runner.mu.Unlock()
	var cheapest time.Duration
	for _, s := range w.base {
		if level := s.report.Seen.Level; level > 0 && (cheapest == 0 || level < cheapest) {
			cheapest = level
		}
	}
	if cheapest > 0 {
		w.run.runner.levels[w.model] = cheapest
	}
}
