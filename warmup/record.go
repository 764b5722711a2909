package warmup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// recordFormat changes whenever a record of before would be misread.
const recordFormat = 1

// record is what was warm when a run of the plan ended, for a Pilotlight that starts again beside the same backend: it confirms each shape by one volley
// instead of warming it anew. It holds no content of any request.
type record struct {
	Format int `json:"format"`
	// Backend is the process that was warmed, and Plan what it was warmed by.
	Backend string `json:"backend"`
	Plan    string `json:"plan"`
	// Models maps models to their identities.
	Models map[string]string `json:"models"`
	Shapes []warmShape       `json:"shapes"`
}

// warmShape is a shape that was warm, and how that showed.
type warmShape struct {
	Step        string        `json:"step"`
	Model       string        `json:"model"`
	Of          backend.Shape `json:"shape"`
	Concurrency int           `json:"concurrency"`
	// Level is what a request took, and Limit what one may take and be warm; GapLimit is the same for the time between tokens, 0 where nothing streamed.
	Level    time.Duration `json:"level_ns"`
	Limit    time.Duration `json:"limit_ns"`
	GapLimit time.Duration `json:"gap_limit_ns,omitempty"`
}

// admits says whether answers are such as they were when the shape was warm.
func (w *warmShape) admits(samples []sample) bool {
	for _, took := range samples {
		if took.first > w.Limit || (w.GapLimit > 0 && took.gap > w.GapLimit) {
			return false
		}
	}

	return len(samples) > 0
}

// find returns what the record says about a shape of a model that is still the same; nil when it says nothing.
func (r *record) find(s *shape, identity string) *warmShape {
	if r == nil {
		return nil
	}
	if known, ok := r.Models[s.report.Model]; !ok || known != identity {
		return nil
	}
	for i := range r.Shapes {
		if was := &r.Shapes[i]; was.Step == s.report.Step && was.Model == s.report.Model && was.Of == s.shape && was.Concurrency == s.concurrency {
			return was
		}
	}

	return nil
}

// readRecord reads a record. Nil without an error: there is none.
func readRecord(path string) (*record, error) {
	text, err := readDurable(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // it says so
	}
	if err != nil {
		return nil, err
	}
	read := &record{}
	if err := json.Unmarshal(text, read); err != nil {
		return nil, fmt.Errorf("it is no record: %w", err)
	}
	if read.Format != recordFormat {
		return nil, fmt.Errorf("its format is %d, expected %d", read.Format, recordFormat)
	}

	return read, nil
}

// believe returns the record of an earlier process if this one may believe it; nil means that everything is to be warmed. Nothing about a record is a failure.
func (c *run) believe(ctx context.Context) *record {
	r := c.runner
	path := r.settings.Config.Record.Value
	if path == "" || r.recordSpent.Load() {
		return nil
	}
	read, err := readRecord(path)
	if read == nil && err == nil {
		return nil
	}
	if err == nil {
		switch now := c.process(); {
		case now == "":
			err = errors.New("which process listens at the backend's address cannot be seen")
		case now != read.Backend:
			err = errors.New("another process listens at the backend's address")
		case read.Plan != r.planHash:
			err = errors.New("the plan is another one")
		}
	}
	if err != nil {
		r.recordSpent.Store(true)
		r.logger.InfoContext(ctx, "ignored the record of what was warm", "file", path, "because", err.Error())

		return nil
	}
	r.logger.InfoContext(ctx, "the backend is the one that was warm: one request for each shape confirms it", "file", path, "shapes", len(read.Shapes))

	return read
}

// settleRecord writes down what the run has left warm. Whatever a run that is no confirmation leaves half done, nobody may take for warm.
func (c *run) settleRecord(ctx context.Context, failed error) {
	r := c.runner
	path := r.settings.Config.Record.Value
	if path == "" || failed != nil {
		return
	}
	r.recording.Lock()
	defer r.recording.Unlock()
	r.recordSpent.Store(true)
	made := c.record()
	if made.Backend == "" || made.Backend != r.settings.Process() || len(made.Shapes) == 0 {
		r.forgetRecord(ctx)

		return // nobody could tell later that it is the same one
	}
	text, err := json.Marshal(made)
	if err == nil {
		err = replaceFile(path, text)
	}
	if err != nil {
		r.logger.WarnContext(ctx, "what is warm could not be recorded: a restart of Pilotlight alone will warm it again", "file", path, "error", err)
	}
}

// settleRecord writes the record anew when what is warm of one model has changed beside the latest run.
func (r *Runner) settleRecord(ctx context.Context) {
	r.mu.Lock()
	c := r.current
	r.mu.Unlock()
	if c != nil {
		c.settleRecord(ctx, c.err)
	}
}

// record is what the run, and those for one model since, have left warm. Its lanes have ended.
func (c *run) record() record {
	r := c.runner
	r.mu.Lock()
	defer r.mu.Unlock()
	made := record{Format: recordFormat, Backend: c.process(), Plan: r.planHash, Models: maps.Clone(r.warmed)}
	shapes := slices.DeleteFunc(slices.Clone(c.shapes), func(s *shape) bool { return r.partial[s.report.Model] != nil })
	for _, part := range r.partial {
		if !part.ended.IsZero() && part.err == nil {
			shapes = append(shapes, part.shapes...)
		}
	}
	for _, s := range shapes {
		if !s.report.State.Warm() {
			continue
		}
		if s.report.State == ShapeConfirmed {
			made.Shapes = append(made.Shapes, *s.was)

			continue
		}
		warm := warmShape{
			Step: s.report.Step, Model: s.report.Model, Of: s.shape, Concurrency: s.concurrency, Level: s.report.Seen.Level, Limit: s.passLimit,
		}
		if s.meter != nil {
			warm.Limit, warm.GapLimit = s.meter.ceilings()
		}
		if warm.Limit > 0 { // else too little was seen to tell warm from cold
			made.Shapes = append(made.Shapes, warm)
		}
	}

	return made
}

// forgetRecord removes a record that a run is about to make untrue.
func (r *Runner) forgetRecord(ctx context.Context) {
	path := r.settings.Config.Record.Value
	if path == "" || !r.recordSpent.Load() {
		return
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.logger.WarnContext(ctx, "the record of what was warm could not be removed", "file", path, "error", err)
	}
}

// hash tells this plan from others: what a shape was warmed by, and what its answers were held against.
func (p Plan) hash(config Config, sample *backend.Sample) (string, error) {
	golden := make([][]byte, 0, len(p.steps))
	for _, s := range p.steps {
		golden = append(golden, s.expect.Equals)
	}
	text, err := json.Marshal(struct { //nolint:musttag // it is hashed and never read
		Steps  []StepConfig    `json:"steps"`
		Golden [][]byte        `json:"golden"`
		Sample *backend.Sample `json:"sample"`
	}{config.Steps, golden, sample})
	if err != nil {
		return "", fmt.Errorf("hash the plan: %w", err)
	}
	sum := sha256.Sum256(text)

	return hex.EncodeToString(sum[:]), nil
}
