package main

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

const (
	// coldTimes and coldLeast say from when on a first byte is an outlier: so many times what the warm shapes of the model let expect, and so much more than that. A busy
	// server is late by less than one that compiles.
	coldTimes = 4
	coldLeast = 50 * time.Millisecond
	// coldShapes bounds how many shapes are remembered.
	coldShapes = 256
)

// coldHits finds users' requests that met a cold backend although the pod is ready: of a shape that was never warmed, and slower than any warm shape of the model would
// be if its time grew with the size of the request.
type coldHits struct {
	logger *slog.Logger

	mu    sync.Mutex
	warm  map[proxy.RequestShape]warmLevel
	hits  map[proxy.RequestShape]*coldHit
	total int
}

// warmLevel is what a warm shape takes.
type warmLevel struct{ first, perToken time.Duration }

// coldHit is what the status page shows of a shape.
type coldHit struct {
	Model string `json:"model,omitempty"`
	Count int    `json:"count"`
	// Slowest is the longest first byte, Expected what was to be expected at most.
	Slowest  time.Duration `json:"slowest_ns"`
	Expected time.Duration `json:"expected_ns"`
	// Suggestion is what would warm it, as a step of the plan says it. Sizes are rounded up to powers of two.
	Suggestion string `json:"suggestion"`
}

// learn takes what is warm after a run of the plan, in place of what was.
func (c *coldHits) learn(warm map[proxy.RequestShape]warmLevel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warm = warm
}

// observe looks at a user's request that was answered.
func (c *coldHits) observe(seen proxy.Observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, warmed := c.warm[seen.Shape]; warmed {
		return
	}
	expected, known := c.expected(seen.Shape)
	if !known || seen.FirstByte < max(coldTimes*expected, expected+coldLeast) {
		return
	}
	c.total++
	hit := c.hits[seen.Shape]
	if hit == nil {
		if len(c.hits) >= coldShapes {
			return // it is counted all the same
		}
		hit = &coldHit{Model: seen.Shape.Model, Suggestion: suggestion(liveShape(seen.Shape))}
		if c.hits == nil {
			c.hits = map[proxy.RequestShape]*coldHit{}
		}
		c.hits[seen.Shape] = hit
		c.logger.Warn("a user's request met a shape that was never warmed", "model", seen.Shape.Model, "took", seen.FirstByte, "expected", expected, "suggestion", hit.Suggestion)
	}
	hit.Count++
	hit.Slowest, hit.Expected = max(hit.Slowest, seen.FirstByte), expected
}

// expected is the longest that a request of the shape would take by any warm shape of its model; not known when none tells. The caller holds the lock.
func (c *coldHits) expected(shape proxy.RequestShape) (longest time.Duration, known bool) {
	for warm, level := range c.warm {
		if warm.Model != shape.Model {
			continue
		}
		estimate := level.first * time.Duration(grows(size(warm), size(shape)))
		switch {
		case shape.Stream || warm.Output == 0:
		case shape.Output == 0:
			continue // the whole answer is waited for, and nobody knows how long it was meant to be
		case !warm.Stream:
			estimate *= time.Duration(grows(warm.Output, shape.Output))
		case level.perToken == 0:
			continue
		default:
			estimate += time.Duration(shape.Output) * level.perToken
		}
		longest, known = max(longest, estimate), true
	}

	return longest, known
}

// size is how much there is to compute before the first byte.
func size(shape proxy.RequestShape) int { return max(shape.Batch, 1) * max(shape.Input, 1) }

// grows is how many times larger a size is than another one, at least 1.
func grows(from, to int) int { return max((to+from-1)/max(from, 1), 1) }

// warmLevelOf is what a report says of a warm shape.
func warmLevelOf(report warmup.ShapeReport) warmLevel {
	level := warmLevel{first: max(report.Seen.P95, report.Seen.Level)}
	if report.Gaps != nil {
		level.perToken = report.Gaps.Level
	}

	return level
}

// report is what the status page shows, the shape that was met most often first; nil when all was well.
func (c *coldHits) report() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.hits) == 0 {
		return nil
	}
	all := make([]coldHit, 0, len(c.hits))
	for _, hit := range c.hits {
		all = append(all, *hit)
	}
	slices.SortFunc(all, func(a, b coldHit) int { return b.Count - a.Count })

	return all
}

// tell tells the metrics.
func (c *coldHits) tell(o *telemetry.Observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.Set(telemetry.ColdHits, float64(c.total))
}
