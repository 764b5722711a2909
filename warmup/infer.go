package warmup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
	"github.com/pilotlight-proxy/pilotlight/warmup/steady"
)

// inference warms one model by inferences: each shape by itself until it has converged, all of them in shuffled order, then at each higher
// concurrency. What a try has reached is kept for the next one.
type inference struct {
	run   *run
	node  *node
	lane  *lane
	model string

	dialect      backend.Dialect
	identity     string
	described    backend.Model
	base, higher []*shape
	// left are the shapes that are left for the background, in the order of base and higher.
	left []*shape
	// slow is true in the background, where each volley waits for its turn.
	slow bool
	// answered is when the last good answer came, in nanoseconds since 1970.
	answered atomic.Int64
}

func (w *inference) try(ctx context.Context) error {
	if err := w.describe(ctx); err != nil || w.lane.unwarmed != "" {
		return err
	}
	err := w.warm(ctx)
	if spent, ok := errors.AsType[*spentError](err); ok {
		w.leave(spent)

		return nil
	}
	if err != nil && w.outOfBudget(ctx) {
		return nil
	}

	return err
}

// leave names what is left unwarmed because the time allowed is spent.
func (w *inference) leave(spent *spentError) {
	l := w.lane
	l.onlyLater = w.slow && (l.spent == nil || l.onlyLater)
	l.spent = spent
	for _, s := range slices.Concat(w.base, w.higher) {
		if s.report.State.decided() {
			continue
		}
		w.set(s, ShapeLeft, spent.Error())
		l.left = append(l.left, s.report.Shape())
	}
	w.keepLevel()
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
	if err = w.refer(ctx); err != nil {
		return err
	}
	w.identity = identify(ctx, w.dialect, w.model)
	if w.described, err = runner.describe(ctx, w.dialect, w.model); err != nil {
		return err
	}
	if w.described.NoRequest != "" {
		w.lane.unwarmed = "no request can be made up: " + w.described.NoRequest

		return nil
	}
	workers, err := runner.workers(ctx, w.dialect, w.model)
	if err != nil {
		return err
	}
	w.lane.crewless = workers == 0
	if w.base, w.higher, err = grid(w.node.step, w.described, workers, runner.recorded(w.node.step, w.described)); err != nil {
		return err
	}
	w.man(runner.settings.Workers)
	believed := w.run.believed()
	runner.mu.Lock()
	defer runner.mu.Unlock()
	for _, s := range slices.Concat(w.base, w.higher) {
		w.believe(s, believed.find(s, w.identity))
		s.report.Background = w.slow || (s.extra && runner.settings.Background && w.run.only == "") // nobody comes back to a run for one model
		if s.spare && runner.suspects.givenUp(s.suspect()) {
			s.report.State, s.report.Text = ShapeGivenUp, fmt.Sprintf("the backend was lost %d times while it was asked for", lossesBorne)
		}
		w.run.shapes = append(w.run.shapes, s)
	}
	if w.slow {
		return nil
	}
	later := func(s *shape) bool { return s.report.Background }
	for _, s := range slices.Concat(w.base, w.higher) {
		if later(s) {
			w.left = append(w.left, s)
		}
	}
	if len(w.left) > 0 {
		w.base, w.higher = slices.DeleteFunc(w.base, later), slices.DeleteFunc(w.higher, later)
		w.run.background.jobs = append(w.run.background.jobs, w)
	}

	return nil
}

// man has shapes reach each of the processes behind the port that the configuration tells of, by the highest concurrency if none is as high as they are many. Those
// that a server tells of are its own to spread requests over.
func (w *inference) man(processes int) {
	if processes < 2 {
		return
	}
	highest := 1
	all := slices.Concat(w.base, w.higher)
	for _, s := range all {
		if s.report.State != ShapeRefused {
			highest = max(highest, s.concurrency)
		}
	}
	for _, s := range all {
		if s.concurrency >= min(processes, highest) {
			s.crew, s.volleys = true, crewVolleys(processes)
		}
	}
}

// settle sends requests of one shape until its meter knows, or the number that was asked for.
func (w *inference) settle(ctx context.Context, s *shape) error {
	for !w.settled(s) {
		if err := w.touch(ctx, s); err != nil {
			return err
		}
	}
	if s.meter.result() == steady.NotConverged {
		w.set(s, ShapeNotConverged, "")
	}

	return nil
}

// touch sends one volley and shows it to the meter.
func (w *inference) touch(ctx context.Context, s *shape) error {
	w.set(s, ShapeWarming, "")
	samples, err := w.volley(ctx, s, s.concurrency)
	for _, sample := range samples {
		s.meter.add(sample)
	}
	w.see(s)
	if err == nil && w.confirmedBy(s, samples) {
		w.set(s, ShapeConfirmed, "")
	}
	if err != nil && s.guessed && s.report.Seen.N == 0 && (errors.Is(err, backend.ErrRequestRefused) || errors.Is(err, backend.ErrNoRequest) || errors.Is(err, backend.ErrNotOffered)) {
		// Nothing promised that the server takes it, so nobody will send it.
		w.set(s, ShapeRefused, err.Error())

		return nil
	}

	return err
}

// outOfBudget says whether the time of the try, or of the run, is all that was missing: every shape has been answered, and the last answer is
// not overdue. Then what is not settled has not converged, and the policy for that decides; to fail would mean to begin again for ever.
func (w *inference) outOfBudget(ctx context.Context) bool {
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return false
	}
	var slowest time.Duration
	for _, s := range w.base {
		if s.report.Seen.N == 0 && !s.report.State.decided() {
			return false
		}
		slowest = max(slowest, s.report.Slowest)
	}
	if time.Since(time.Unix(0, w.answered.Load())) > 2*slowest+time.Second {
		return false
	}
	for _, s := range slices.Concat(w.base, w.higher) {
		if !s.report.State.decided() {
			w.set(s, ShapeNotConverged, context.Cause(ctx).Error())
		}
	}
	w.keepLevel()

	return true
}

func (w *inference) settled(s *shape) bool {
	switch s.report.State {
	case ShapeRefused, ShapeNotConverged, ShapeConfirmed, ShapeGivenUp:
		return true
	case ShapeWaiting, ShapeWarming, ShapeConverged, ShapeMultimodal, ShapeCounted, ShapeFailed, ShapeLeft:
	}
	if until := int(w.node.infer.Until); until > 0 {
		if s.report.Seen.N < until {
			return false
		}
		w.set(s, ShapeCounted, "")

		return true
	}

	return s.meter.result() != steady.Undecided && s.report.Seen.N >= s.volleys*s.concurrency
}

func (w *inference) failed(s *shape, err error) error {
	if _, spent := errors.AsType[*spentError](err); spent {
		return err // it is named with the others
	}
	w.set(s, ShapeFailed, err.Error())

	return err
}

func (w *inference) set(s *shape, state ShapeState, text string) {
	w.run.runner.mu.Lock()
	defer w.run.runner.mu.Unlock()
	s.report.State, s.report.Text = state, text
}

func (w *inference) see(s *shape) {
	seen, gaps := s.meter.reports()
	w.run.runner.mu.Lock()
	defer w.run.runner.mu.Unlock()
	s.report.Seen, s.report.Gaps = seen, gaps
}

// keepLevel notes the warm level of the model's cheapest shape, for those who ask after the run. That is a required one, if any.
func (w *inference) keepLevel() {
	if w.slow {
		return
	}
	w.run.runner.mu.Lock()
	defer w.run.runner.mu.Unlock()
	var cheapest time.Duration
	for _, s := range w.base {
		if level := max(s.report.Seen.Level, s.level()); level > 0 && (cheapest == 0 || level < cheapest) {
			cheapest = level
		}
	}
	if cheapest > 0 {
		w.run.runner.levels[w.model] = cheapest
	}
	w.run.runner.warmed[w.model] = w.identity
}
