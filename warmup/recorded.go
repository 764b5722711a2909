package warmup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

const (
	// recordedFormat changes whenever a file of before would be misread.
	recordedFormat = 1
	// recordedHalf is the time in which a count loses half of its weight: yesterday's traffic says a lot about today's, last week's little.
	recordedHalf = 24 * time.Hour
	// recordedFlush is how often the file is written.
	recordedFlush = time.Minute
	// recordedShards keeps requests that end at the same time from waiting for each other.
	recordedShards = 8
	// MostRecorded bounds RecordShapesConfig.Max: so many fit into the file, whatever their models are called.
	MostRecorded = 512
)

// RecordShapesConfig says whether the shapes that users send are remembered for the next start.
type RecordShapesConfig struct {
	// File is where they are kept, with mode 0600: models, sizes in powers of two and counts, never a word of a request. Empty: nowhere. It outlives a container only on a volume.
	File string `yaml:"file"`
	// Max is how many shapes are told apart, of all models together. The rarest make room.
	Max int `yaml:"max"`
	// MinShare is the least share of a model's requests for which a shape is warmed.
	MinShare float64 `yaml:"min_share"`
}

// LiveShape is a shape of users' requests to a model. Its sizes are rounded up to powers of two; its temperature says only whether it was above 0.
type LiveShape struct {
	Model string        `json:"model"`
	Of    backend.Shape `json:"shape"`
}

// RecordedShape is a shape with the share of its model's requests that it certainly had.
type RecordedShape struct {
	LiveShape

	Share float64
}

// recordedFile is what the file holds.
type recordedFile struct {
	Format int               `json:"format"`
	At     time.Time         `json:"at"`
	Shapes []recordedCounter `json:"shapes"`
}

type recordedCounter struct {
	LiveShape
	counter
}

// ShapeRecorder counts the shapes of users' requests. Its methods are safe for concurrent use, and on a nil one do nothing.
type ShapeRecorder struct {
	config RecordShapesConfig
	logger *slog.Logger
	// shards hold what came since the file was written last; a request meets one of them at random.
	shards [recordedShards]struct {
		mu   sync.Mutex
		seen sketch[LiveShape]
	}

	// mu guards what follows; no request waits for it.
	mu  sync.Mutex
	all sketch[LiveShape]
	at  time.Time
}

// NewShapeRecorder goes on from what the file says; one that says nothing useful is a line in the log. Nil: none is asked for.
func NewShapeRecorder(config RecordShapesConfig, logger *slog.Logger) *ShapeRecorder {
	if config.File == "" {
		return nil
	}
	r := &ShapeRecorder{config: config, logger: logger, all: newSketch[LiveShape](config.Max), at: time.Now()}
	for i := range r.shards {
		r.shards[i].seen = newSketch[LiveShape](config.Max)
	}
	read, err := readShapes(config.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		logger.Info("ignored the shapes that were recorded", "file", config.File, "because", err.Error())
	default:
		for _, shape := range read.Shapes {
			r.all.add(shape.LiveShape, shape.counter)
		}
		r.all.age(aged(r.at.Sub(read.At)))
	}

	return r
}

// See counts a user's request that was answered well.
func (r *ShapeRecorder) See(shape LiveShape) {
	if r == nil || (shape.Of.Batch == 0 && shape.Of.InputTokens == 0) { // then nothing is known that could be asked again
		return
	}
	shard := &r.shards[rand.Uint32N(recordedShards)] //nolint:gosec // any will do
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.seen.add(shape, counter{Count: 1})
}

// Shapes lists the shapes of a model, and of requests that name none, that have the least share or more, the most frequent first.
func (r *ShapeRecorder) Shapes(model string) []RecordedShape {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gather(time.Now())

	return slices.DeleteFunc(shares(r.all.counters, r.config.MinShare), func(s RecordedShape) bool { return s.Model != model && s.Model != "" })
}

// Run writes the file now and then, and once more when ctx has ended.
func (r *ShapeRecorder) Run(ctx context.Context) error {
	if r == nil {
		<-ctx.Done()

		return nil
	}
	ticker := time.NewTicker(recordedFlush)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.flush()
		case <-ctx.Done():
			r.flush()

			return nil
		}
	}
}

func (r *ShapeRecorder) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gather(time.Now())
	file := recordedFile{Format: recordedFormat, At: r.at, Shapes: make([]recordedCounter, 0, len(r.all.counters))}
	for shape, c := range r.all.counters {
		file.Shapes = append(file.Shapes, recordedCounter{shape, *c})
	}
	text, err := json.Marshal(file)
	if err == nil {
		err = replaceFile(r.config.File, text)
	}
	if err != nil {
		r.logger.Warn("the shapes of users' requests could not be recorded", "file", r.config.File, "error", err)
	}
}

// gather ages what is known and adds what the shards have. The caller holds the lock.
func (r *ShapeRecorder) gather(now time.Time) {
	r.all.age(aged(now.Sub(r.at)))
	r.at = now
	for i := range r.shards {
		shard := &r.shards[i]
		shard.mu.Lock()
		seen := shard.seen
		shard.seen = newSketch[LiveShape](r.config.Max)
		shard.mu.Unlock()
		for shape, c := range seen.counters {
			r.all.add(shape, *c)
		}
	}
}

// aged is what is left of a count after some time. A clock that was set back ages nothing.
func aged(by time.Duration) float64 {
	return math.Exp2(-float64(max(by, 0)) / float64(recordedHalf))
}

// ReadRecordedShapes reads what a recorder has written: the shapes that have the least share of their model's requests or more.
func ReadRecordedShapes(path string, least float64) ([]RecordedShape, error) {
	read, err := readShapes(path)
	if err != nil {
		return nil, fmt.Errorf("read recorded shapes: %w", err)
	}
	counters := make(map[LiveShape]*counter, len(read.Shapes))
	for i := range read.Shapes {
		counters[read.Shapes[i].LiveShape] = &read.Shapes[i].counter
	}

	return shares(counters, least), nil
}

func readShapes(path string) (read recordedFile, err error) {
	text, err := readDurable(path)
	if err != nil {
		return read, err
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return read, fmt.Errorf("%s holds no shapes: %w", path, err)
	}
	if read.Format != recordedFormat {
		return read, fmt.Errorf("the format of %s is %d, expected %d", path, read.Format, recordedFormat)
	}
	for i, shape := range read.Shapes {
		if err := shape.check(); err != nil {
			return read, fmt.Errorf("%s: shapes[%d]: %w", path, i, err)
		}
	}

	return read, nil
}

// check refuses what no recorder has written.
func (r recordedCounter) check() error {
	const most = 1 << 30
	for _, n := range [...]int{r.Of.Batch, r.Of.InputTokens, r.Of.OutputTokens} {
		if n < 0 || n > most {
			return fmt.Errorf("expected sizes from 0 to %d, got %d", most, n)
		}
	}
	if !(r.Over >= 0 && r.Count >= r.Over) {
		return fmt.Errorf("expected a count of at least what it may be over, which is at least 0; got %v and %v", r.Count, r.Over)
	}

	return nil
}

// shares turns counts into shares, the greatest first. Only what was certainly counted counts, so that a stream of shapes that come once makes none look frequent.
func shares(counters map[LiveShape]*counter, least float64) []RecordedShape {
	totals := map[string]float64{}
	for shape, c := range counters {
		totals[shape.Model] += c.Count
	}
	var found []RecordedShape
	for shape, c := range counters {
		if share := (c.Count - c.Over) / totals[shape.Model]; share > 0 && share >= least {
			found = append(found, RecordedShape{shape, share})
		}
	}
	slices.SortFunc(found, func(a, b RecordedShape) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(b.Share, a.Share), cmp.Compare(a.Of.String(), b.Of.String()))
	})

	return found
}
