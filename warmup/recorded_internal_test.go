package warmup

import (
	"bytes"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// TestTheSketchAgainstExactCounts draws things of which few are frequent, and holds the sketch against a count of all.
func TestTheSketchAgainstExactCounts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		room := 1 + random.IntN(40)
		draw := rand.NewZipf(random, 1.05+random.Float64(), 1, 500)
		whole, merged, part := newSketch[uint64](room), newSketch[uint64](room), newSketch[uint64](room)
		exact, total := map[uint64]float64{}, 0.0
		for i := range 5000 {
			what := draw.Uint64()
			exact[what]++
			total++
			whole.add(what, counter{Count: 1})
			part.add(what, counter{Count: 1})
			if i%700 == 699 || i == 4999 {
				for what, c := range part.counters {
					merged.add(what, *c)
				}
				part = newSketch[uint64](room)
			}
		}
		for name, s := range map[string]sketch[uint64]{"whole": whole, "merged": merged} {
			sum := 0.0
			for what, c := range s.counters {
				sum += c.Count
				if c.Count-c.Over > exact[what] {
					t.Errorf("seed %d, %s: %d came %v times, certain are %v", seed, name, what, exact[what], c.Count-c.Over)
				}
			}
			if len(s.counters) > room || sum != total {
				t.Errorf("seed %d, %s: %d counters with %v in all, expected at most %d with %v", seed, name, len(s.counters), sum, room, total)
			}
		}
		for what, n := range exact {
			switch c := whole.counters[what]; {
			case c == nil && n > total/float64(room):
				t.Errorf("seed %d: %d came %v times of %v and is not among %d", seed, what, n, total, room)
			case c != nil && (c.Count < n || c.Over > total/float64(room)):
				t.Errorf("seed %d: %d came %v times, counted %+v", seed, what, n, *c)
			}
		}
	}
}

func liveBatch(n int) LiveShape { return LiveShape{Model: "m", Of: backend.Shape{Batch: n}} }

func TestRecordedShapesOutliveTheProcessAndAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := RecordShapesConfig{File: filepath.Join(t.TempDir(), "shapes.json"), Max: 8, MinShare: 0.01}
		first := NewShapeRecorder(config, slog.New(slog.DiscardHandler))
		for range 100 {
			first.See(liveBatch(16))
		}
		first.See(LiveShape{Model: "m"}) // says nothing
		first.flush()
		if info, err := os.Stat(config.File); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file has mode %v (%v), expected 0600", info.Mode(), err)
		}
		time.Sleep(2 * recordedHalf)
		second := NewShapeRecorder(config, slog.New(slog.DiscardHandler))
		for range 75 {
			second.See(liveBatch(32))
		}
		got := second.Shapes("m")
		if len(got) != 2 || got[0].LiveShape != liveBatch(32) || math.Abs(got[0].Share-0.75) > 1e-6 || math.Abs(got[1].Share-0.25) > 1e-6 {
			t.Errorf("shapes %+v, expected 75 new ones beside 25 that are left of 100 after two half-lives", got)
		}
		if other := second.Shapes("other"); len(other) != 0 {
			t.Errorf("another model has %+v", other)
		}
		time.Sleep(30 * recordedHalf)
		if got := second.Shapes("m"); len(got) != 0 {
			t.Errorf("after a month %+v", got)
		}
	})
}

func TestDamagedShapesAreALineInTheLog(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON": "{", "format": `{"format":99}`, "size": `{"format":1,"shapes":[{"model":"m","shape":{"batch":-1},"count":1}]}`,
		"count": `{"format":1,"shapes":[{"model":"m","shape":{"batch":1},"count":-1}]}`, "endpoint": `{"format":1,"shapes":[{"shape":{"endpoint":"x"},"count":1}]}`,
		"large": strings.Repeat(" ", durableLimit+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := RecordShapesConfig{File: filepath.Join(t.TempDir(), "shapes.json"), Max: 8}
			if err := os.WriteFile(config.File, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			recorder := NewShapeRecorder(config, slog.New(slog.NewTextHandler(&log, nil)))
			recorder.See(liveBatch(2))
			if got := recorder.Shapes("m"); len(got) != 1 || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("shapes %+v and the log %q, expected one of each", got, log.String())
			}
		})
	}
}

func TestARequestIsCountedWithoutAllocations(t *testing.T) {
	recorder := NewShapeRecorder(RecordShapesConfig{File: filepath.Join(t.TempDir(), "none"), Max: 8}, slog.New(slog.DiscardHandler))
	for range 1000 { // every shard knows it
		recorder.See(liveBatch(2))
	}
	if allocations := testing.AllocsPerRun(1000, func() { recorder.See(liveBatch(2)) }); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func TestBeyond(t *testing.T) {
	t.Parallel()
	tensor := backend.Model{Name: "m", Takes: []backend.Axis{backend.AxisBatch, backend.AxisDims}, Batched: true, MaxBatch: 12}
	prompt := backend.Model{
		Name: "m", Endpoints: []Endpoint{backend.EndpointChat}, MaxTokens: 1000,
		Takes: []backend.Axis{backend.AxisInputTokens, backend.AxisOutputTokens, backend.AxisTemperature, backend.AxisStream, backend.AxisEndpoint},
	}
	chat := backend.Shape{InputTokens: 256, OutputTokens: 64, Endpoint: backend.EndpointChat}
	change := func(by func(*backend.Shape)) backend.Shape { made := chat; by(&made); return made }
	for name, test := range map[string]struct {
		model    backend.Model
		recorded backend.Shape
		want     string // none: empty
	}{
		"planned":                    {tensor, backend.Shape{Batch: 4}, ""},
		"rounded up beyond":          {tensor, backend.Shape{Batch: 16}, ""}, // that is 12, which is planned
		"too large":                  {tensor, backend.Shape{Batch: 64}, ""},
		"not of this type":           {tensor, chat, ""},
		"larger than a guess":        {func() backend.Model { m := tensor; m.MaxBatch = 0; return m }(), backend.Shape{Batch: 16}, "batch=16"},
		"a long answer":              {prompt, chat, chat.String()},
		"another endpoint":           {prompt, change(func(s *backend.Shape) { s.Endpoint = backend.EndpointCompletions }), ""},
		"an adapter nobody has":      {prompt, change(func(s *backend.Shape) { s.Adapter = "x" }), ""},
		"a prompt that just fits":    {prompt, change(func(s *backend.Shape) { s.InputTokens = 1024 }), "endpoint=chat input_tokens=819 output_tokens=64 temperature=0"},
		"an answer that has no room": {prompt, change(func(s *backend.Shape) { s.OutputTokens = 1024 }), ""},
	} {
		plan, err := planShapes(GridConfig{}, test.model)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range beyond(plan, []backend.Shape{test.recorded, test.recorded}, test.model) {
			if got += p.shape.String(); !p.extra || !p.guessed {
				t.Errorf("%s: %+v is required", name, p)
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, expected %q", name, got, test.want)
		}
	}
}

// TestRecordedShapesJoinAStepThatNamesNone has steps that somebody wrote. A grid that names shapes, as the control, is taken at its word.
func TestRecordedShapesJoinAStepThatNamesNone(t *testing.T) {
	t.Parallel()
	model := backend.Model{Name: "m", Takes: []backend.Axis{backend.AxisBatch}, Batched: true}
	runner := &Runner{settings: Settings{Recorded: func(string) []RecordedShape { return []RecordedShape{{LiveShape: liveBatch(64), Share: 1}} }}}
	for name, test := range map[string]struct {
		grid GridConfig
		want bool
	}{
		"no grid":               {GridConfig{}, true},
		"only how many at once": {GridConfig{Concurrency: []int{2}}, true},
		"control: a grid":       {GridConfig{Batch: []int{1}}, false},
	} {
		written := step{}
		written.infer.Grid = test.grid
		base, _, err := grid(written, model, 1, runner.recorded(written, model))
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(base, func(s *shape) bool { return s.shape.Batch == 64 && s.spare })
		if got != test.want {
			t.Errorf("%s: the recorded shape is warmed: %v, expected %v", name, got, test.want)
		}
	}
}
