package warmup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// mostNamed bounds the shapes that one text names; the report has them all.
const mostNamed = 8

// verdict gathers what a run came to for one model.
type verdict struct {
	report ModelReport
	texts  []string
	// inferred is true once requests were sent for the model, crewless when nobody knows how many processes there are to warm.
	inferred, crewless bool
	// unwarmed says why no requests were sent.
	unwarmed string
	// failure joins the errors of required steps.
	failure error
}

func (v *verdict) because(outcome Outcome, reason Reason, text string) {
	v.report.Outcome = max(v.report.Outcome, outcome)
	if !slices.Contains(v.report.Reasons, reason) {
		v.report.Reasons = append(v.report.Reasons, reason)
	}
	v.texts = append(v.texts, text)
}

// outcome waits until every step that concerns it is through with the model and says what it came to.
func (c *run) outcome(model string) (ModelReport, error) {
	v := &verdict{report: ModelReport{Name: model, Outcome: Warm}, unwarmed: "no step sends it requests"}
	concerns := c.concerns(model)
	for _, n := range c.nodes {
		if !concerns[n] {
			continue
		}
		v.inferred = n.inferred(model) || v.inferred
		err := n.sharedErr
		if l, ok := n.lanes[model]; ok {
			err = l.err
			v.lane(n, l)
		}
		if n.cut != "" {
			v.because(Degraded, ReasonGPUTimeSpent, fmt.Sprintf("step %s: %s", n.name, n.cut))
		}
		if err != nil {
			v.failed(n, err)
		}
	}
	v.shapes(c, model)
	switch {
	case v.report.Outcome == Warm && !v.inferred:
		v.because(Unwarmed, ReasonWarmedNothing, v.unwarmed)
	case v.report.Outcome == Warm && v.crewless:
		v.because(Warm, ReasonWorkersUnknown, "one process was taken for all there are; backend.workers says how many")
	}
	v.report.Text = strings.Join(slices.Compact(v.texts), "; ")

	return v.report, v.failure
}

// shapes adds what was found about the shapes of the model.
func (v *verdict) shapes(c *run, model string) {
	c.runner.mu.Lock()
	defer c.runner.mu.Unlock()
	var givenUp []string
	for _, s := range c.shapes {
		if s.report.Model != model {
			continue
		}
		if s.report.State == ShapeGivenUp {
			givenUp = append(givenUp, s.report.Shape())
		}
		// Beside users a latency need not settle, so in the background that is no reason for anything.
		if s.report.State == ShapeNotConverged && !s.report.Background {
			v.because(Degraded, ReasonNotConverged, fmt.Sprintf("%s has not converged after %d requests", s.report.Shape(), s.report.Seen.N))
		}
	}
	if givenUp != nil {
		v.because(Degraded, ReasonOptionalFailed, fmt.Sprintf("given up until Pilotlight is started anew, since the backend was lost %d times while they were asked for: %s", lossesBorne, named(givenUp)))
	}
}

// named lists the first of some shapes.
func named(shapes []string) string {
	if len(shapes) > mostNamed {
		shapes = append(slices.Clone(shapes[:mostNamed]), fmt.Sprintf("%d more", len(shapes)-mostNamed))
	}

	return strings.Join(shapes, ", ")
}

// lane adds what a step found about the model besides its error.
func (v *verdict) lane(n *node, l *lane) {
	v.crewless = v.crewless || l.crewless
	switch {
	case l.unwarmed != "":
		v.unwarmed = l.unwarmed
	case l.deferred:
		v.unwarmed = "only steps in the background send it requests"
	}
	if l.spent != nil {
		outcome := Degraded
		if l.onlyLater {
			outcome = Warm // all that is required is
		}
		v.because(outcome, ReasonGPUTimeSpent, fmt.Sprintf("step %s: %v; left unwarmed: %s", n.name, l.spent, named(l.left)))
	}
	if l.later != nil {
		v.because(Degraded, ReasonOptionalFailed, fmt.Sprintf("step %s, in the background: %v", n.name, l.later))
	}
}

// failed adds a step that failed.
func (v *verdict) failed(n *node, err error) {
	text := fmt.Sprintf("step %s: %v", n.name, err)
	if n.optional {
		v.because(Degraded, ReasonOptionalFailed, text)

		return
	}
	v.because(Failed, ReasonWarmFailed, text)
	if errors.Is(err, backend.ErrCredentialsRefused) {
		v.because(Failed, ReasonCredentialsRefused, text)
	}
	v.failure = errors.Join(v.failure, fmt.Errorf("step %s: model %s: %w", n.name, v.report.Name, err))
}

// report copies what there is to tell. The caller holds Runner.mu.
func (c *run) report() Report {
	report := Report{
		Run: c.number, Running: c.ended.IsZero(), Started: c.started, Ended: c.ended, Remaining: c.remaining(), WaitingFor: c.awaited, PutOff: c.waitsFor,
		GPUTime: c.computing.read(), GPUTimeInAll: c.runner.computing.read(), Background: BackgroundReport{Running: c.background.running, PutOff: c.background.why},
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
		step := StepReport{
			Name: n.name, Kind: n.kind, Background: n.deferred, State: n.state, Tries: n.tries, Started: n.started, Took: took, Error: n.text,
		}
		if reader := c.runner.readers[n.name]; reader != nil {
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
		if shape.Background && c.runner.partial[shape.Model] == nil && (shape.State == ShapeWaiting || shape.State == ShapeWarming) {
			report.Background.Left++
		}
		if shape.Gaps != nil {
			gaps := *shape.Gaps
			shape.Gaps = &gaps
		}
		report.Shapes = append(report.Shapes, shape)
	}

	return report
}
