package warmup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// outcome waits until every step is through with the model and says what it came to.
func (c *run) outcome(model string) (ModelReport, error) {
	report := ModelReport{Name: model, Outcome: Warm}
	var texts []string
	var failure error
	because := func(outcome Outcome, reason Reason, text string) {
		report.Outcome = max(report.Outcome, outcome)
		if !slices.Contains(report.Reasons, reason) {
			report.Reasons = append(report.Reasons, reason)
		}
		texts = append(texts, text)
	}
	inferred, crewless, unwarmed := false, false, "no step sends it requests"
	for _, n := range c.nodes {
		inferred = n.inferred(model) || inferred
		err := n.sharedErr
		if l, ok := n.lanes[model]; ok {
			err = l.err
			crewless = crewless || l.crewless
			if l.unwarmed != "" {
				unwarmed = l.unwarmed
			}
		}
		if err == nil {
			continue
		}
		text := fmt.Sprintf("step %s: %v", n.name, err)
		if n.optional {
			because(Degraded, ReasonOptionalFailed, text)

			continue
		}
		because(Failed, ReasonWarmFailed, text)
		if errors.Is(err, backend.ErrCredentialsRefused) {
			because(Failed, ReasonCredentialsRefused, text)
		}
		failure = errors.Join(failure, fmt.Errorf("step %s: model %s: %w", n.name, model, err))
	}
	c.runner.mu.Lock()
	for _, s := range c.shapes {
		if s.report.Model == model && s.report.State == ShapeNotConverged {
			because(Degraded, ReasonNotConverged, fmt.Sprintf("%s has not converged after %d requests", s.report.Shape(), s.report.Seen.N))
		}
	}
	c.runner.mu.Unlock()
	switch {
	case report.Outcome == Warm && !inferred:
		because(Unwarmed, ReasonWarmedNothing, unwarmed)
	case report.Outcome == Warm && crewless:
		because(Warm, ReasonWorkersUnknown, "one process was taken for all there are; backend.workers says how many")
	}
	report.Text = strings.Join(slices.Compact(texts), "; ")

	return report, failure
}

// report copies what there is to tell. The caller holds Runner.mu.
func (c *run) report() Report {
	report := Report{
		Run: c.number, Running: c.ended.IsZero(), Started: c.started, Ended: c.ended, Remaining: c.remaining(), WaitingFor: c.awaited,
		Requests: c.requests, Busy: c.busy, Models: make([]ModelReport, 0, len(c.models)),
		Steps: make([]StepReport, 0, len(c.nodes)), Shapes: make([]ShapeReport, 0, len(c.shapes)),
	}
	if c.err != nil {
		report.Error = c.err.Error()
	}
	if dialect := c.runner.dialect; dialect != nil {
		report.ServerType = dialect.Name()
	}
	for _, n := range c.nodes {
		took := n.took
		if n.state == StepRunning {
			took = time.Since(n.started)
		}
		step := StepReport{Name: n.name, Kind: n.kind, State: n.state, Tries: n.tries, Started: n.started, Took: took, Error: n.text}
		if reader := n.reader.Load(); reader != nil {
			read := reader.Report()
			step.Pages = &read
		}
		report.Steps = append(report.Steps, step)
	}
	for _, model := range c.models {
		model.Reasons = slices.Clone(model.Reasons)
		report.Models = append(report.Models, model)
	}
	for _, s := range c.shapes {
		shape := s.report
		if shape.Gaps != nil {
			gaps := *shape.Gaps
			shape.Gaps = &gaps
		}
		report.Shapes = append(report.Shapes, shape)
	}

	return report
}
