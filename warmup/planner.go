package warmup

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

const (
	// guessedBatch is the largest batch that is tried when the metadata names none.
	guessedBatch = 8
	// shortPrompt and longPrompt bound the lengths that are warmed when nobody names any. Longer ones cost more than they tell: who serves them lists them.
	shortPrompt, longPrompt = 32, 512
	// shortAnswer is how many tokens are asked for when nobody says: enough for a time between tokens.
	shortAnswer = 8
	// warmTemperature samples at random, which is what most users do; greedy sampling is tried once.
	warmTemperature = 0.7
)

// planned is a shape to warm.
type planned struct {
	shape backend.Shape
	// guessed is true when nothing says that the server takes this shape.
	guessed bool
	// extra is true when nobody asked for it and the required ones say most of it: it can wait until the pod serves.
	extra bool
}

// choice is one value of an axis.
type choice struct {
	set            func(*backend.Shape)
	guessed, extra bool
}

// span is what an axis has to offer: each of crossed is combined with those of every other axis, each of varied is tried once.
type span struct{ crossed, varied []choice }

// planShapes lays out the shapes of a model: every combination of what is configured, then one variation at a time of what is not. Within each axis the
// extremes come first: engines that are built for a range are built for the whole range at once then.
func planShapes(grid GridConfig, model backend.Model) ([]planned, error) {
	refuse := func(err error) error {
		return &backend.Error{Act: "lay out the shapes of " + model.Name, Kind: backend.ErrNoRequest, Err: err}
	}
	if err := fits(grid, model.Takes, "model "+model.Name); err != nil {
		return nil, refuse(err)
	}
	shapes := []planned{{}}
	var varied []choice
	for _, axis := range model.Takes {
		offered := spanOf(axis, grid, model)
		varied = append(varied, offered.varied...)
		var combined []planned
		for _, left := range shapes {
			for _, right := range offered.crossed {
				made := planned{shape: left.shape, guessed: left.guessed || right.guessed, extra: left.extra || right.extra}
				right.set(&made.shape)
				combined = append(combined, made)
			}
		}
		shapes = combined
	}
	for _, other := range varied {
		made := planned{shape: shapes[0].shape, guessed: other.guessed, extra: other.extra}
		other.set(&made.shape)
		shapes = append(shapes, made)
	}
	var plan []planned
	for _, made := range shapes {
		if made.shape.Endpoint == backend.EndpointEmbeddings { // a vector has no length and no temperature
			made.shape.OutputTokens, made.shape.Temperature, made.shape.Stream = 0, 0, false
		}
		if slices.ContainsFunc(plan, func(p planned) bool { return p.shape == made.shape }) {
			continue
		}
		if err := within(made.shape, model); err != nil {
			return nil, refuse(err)
		}
		plan = append(plan, made)
	}

	return plan, nil
}

// fits says which keys of the grid are of no use.
func fits(grid GridConfig, takes []backend.Axis, who string) error {
	for _, axis := range grid.axes() {
		if slices.Contains(takes, axis) {
			continue
		}
		known := append(make([]string, 0, 1+len(takes)), "concurrency")
		for _, other := range takes {
			known = append(known, other.String())
		}

		return fmt.Errorf("grid: %s has no use for %q, expected only %s", who, axis, strings.Join(known, ", "))
	}
	known := backend.EndpointsOf(takes)
	for _, endpoint := range grid.Endpoint {
		if !slices.Contains(known, endpoint) {
			return fmt.Errorf("grid: %s has no endpoint %q, expected any of %v", who, endpoint, known)
		}
	}

	return nil
}

// within says by what a shape exceeds the limits of the model. Only what somebody configured can.
func within(shape backend.Shape, model backend.Model) error {
	total := shape.InputTokens + shape.OutputTokens
	switch {
	case model.MaxBatch > 0 && shape.Batch > model.MaxBatch:
		return fmt.Errorf("grid: batch %d is more than the server takes (%d)", shape.Batch, model.MaxBatch)
	case model.MaxInput > 0 && shape.InputTokens > model.MaxInput:
		return fmt.Errorf("grid: input_tokens %d is more than the model takes (%d)", shape.InputTokens, model.MaxInput)
	case model.MaxTokens > 0 && total > model.MaxTokens:
		return fmt.Errorf("grid: input_tokens %d and output_tokens %d are together more than the model takes (%d)", shape.InputTokens, shape.OutputTokens, model.MaxTokens)
	default:
		return nil
	}
}

func spanOf(axis backend.Axis, grid GridConfig, model backend.Model) span {
	switch axis {
	case backend.AxisBatch:
		sizes, guessed := batches(grid.Batch, model)

		made := choices(sizes, func(s *backend.Shape, n int) { s.Batch = n }, func(n int) bool { return guessed && n > 1 })
		if len(grid.Batch) == 0 {
			between(made, func(i int) bool { return slices.Contains(model.Preferred, sizes[i]) })
		}

		return span{crossed: made}
	case backend.AxisDims:
		return span{crossed: choices(dims(grid.Dims), func(s *backend.Shape, d backend.Dims) { s.Dims = d }, nil)}
	case backend.AxisInputTokens:
		set := func(s *backend.Shape, n int) { s.InputTokens = n }
		if len(grid.InputTokens) > 0 {
			return span{crossed: choices(extremesFirst(grid.InputTokens), set, nil)}
		}
		made := choices(lengths(grid, model), set, nil)
		between(made, func(int) bool { return false })

		return span{crossed: made[:1], varied: made[1:]}
	case backend.AxisOutputTokens:
		set := func(s *backend.Shape, n int) { s.OutputTokens = n }

		return span{crossed: choices(extremesFirst(answers(grid, model)), set, nil)}
	case backend.AxisTemperature:
		return either(grid.Temperature, []float64{warmTemperature}, []float64{0}, func(s *backend.Shape, t float64) { s.Temperature = t })
	case backend.AxisStream:
		return either(grid.Stream, []bool{true}, []bool{false}, func(s *backend.Shape, on bool) { s.Stream = on })
	case backend.AxisRepeated:
		return either(grid.Repeated, []bool{false}, nil, func(s *backend.Shape, on bool) { s.Repeated = on })
	case backend.AxisImage:
		return either(grid.Image, []bool{false}, nil, func(s *backend.Shape, on bool) { s.Image = on })
	case backend.AxisAdapter:
		return either(grid.Adapter, []string{""}, nil, func(s *backend.Shape, name string) { s.Adapter = name })
	case backend.AxisEndpoint:
		set := func(s *backend.Shape, e Endpoint) { s.Endpoint = e }
		offered := model.Endpoints
		if len(offered) == 0 {
			offered = []Endpoint{backend.EndpointNative}
		}
		made := either(grid.Endpoint, offered[:1], offered[1:], set)
		for i := range made.varied {
			made.varied[i].guessed = true // a chat template, for instance, may be missing
		}

		return made
	default:
		return span{crossed: []choice{{set: func(*backend.Shape) {}}}}
	}
}

// between marks the sizes of a derived axis between its extremes, which stand first, as extra, but for those that are kept. Extremes make a server build and
// allocate for the whole range, and each other axis is another path through its code: those are required. What lies in between is the same path again.
func between(made []choice, keep func(i int) bool) {
	for i := 2; i < len(made); i++ {
		made[i].extra = !keep(i)
	}
}

func choices[T any](values []T, set func(*backend.Shape, T), guessed func(T) bool) []choice {
	made := make([]choice, 0, len(values))
	for _, value := range values {
		made = append(made, choice{
			set:     func(s *backend.Shape) { set(s, value) },
			guessed: guessed != nil && guessed(value),
		})
	}

	return made
}

// either crosses what is configured, or else the usual values, with the others tried once.
func either[T any](configured, usual, others []T, set func(*backend.Shape, T)) span {
	if len(configured) > 0 {
		return span{crossed: choices(configured, set, nil)}
	}

	return span{crossed: choices(usual, set, nil), varied: choices(others, set, nil)}
}

// batches returns the batch sizes to warm, extremes first.
func batches(configured []int, model backend.Model) (sizes []int, guessed bool) {
	if len(configured) > 0 {
		return extremesFirst(configured), false
	}
	sizes = []int{1}
	largest := 1
	if model.Batched {
		largest, guessed = model.MaxBatch, false
		if largest == 0 {
			largest, guessed = guessedBatch, true
		}
	}
	sizes = append(sizes, powers(2, largest)...)
	sizes = append(sizes, largest)
	for _, size := range model.Preferred {
		if size > 1 && size < largest {
			sizes = append(sizes, size)
		}
	}

	return extremesFirst(sizes), guessed
}

// lengths returns the lengths of prompts to warm, extremes first, within what the model takes beside the longest answer.
func lengths(grid GridConfig, model backend.Model) []int {
	most := longPrompt
	if model.MaxInput > 0 {
		most = min(most, model.MaxInput)
	}
	if model.MaxTokens > 0 {
		most = min(most, model.MaxTokens-slices.Max(answers(grid, model)))
	}
	// Prompts of text, and chat templates, come out a little longer than meant.
	most = max(most-most/8, 1)
	least := min(shortPrompt, most)

	return extremesFirst(append(powers(2*least, most), least, most))
}

// answers returns the lengths of answers to ask for.
func answers(grid GridConfig, model backend.Model) []int {
	if len(grid.OutputTokens) > 0 {
		return grid.OutputTokens
	}
	if model.MaxTokens > 0 {
		return []int{max(min(shortAnswer, model.MaxTokens/2), 1)}
	}

	return []int{shortAnswer}
}

// powers returns from, twice that, and so on, below to.
func powers(from, to int) []int {
	var sizes []int
	for size := from; size < to; size *= 2 {
		sizes = append(sizes, size)
	}

	return sizes
}

// extremesFirst returns each size once: the least, the greatest, then the rest in order.
func extremesFirst(sizes []int) []int {
	sorted := slices.Clone(sizes)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	if n := len(sorted); n > 2 {
		greatest := sorted[n-1]
		copy(sorted[2:], sorted[1:n-1])
		sorted[1] = greatest
	}

	return sorted
}

// dims combines the sizes of open dimensions.
func dims(configured map[string][]int) []backend.Dims {
	combined := []map[string]int{{}}
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		var next []map[string]int
		for _, left := range combined {
			for _, size := range extremesFirst(configured[name]) {
				made := maps.Clone(left)
				made[name] = size
				next = append(next, made)
			}
		}
		combined = next
	}
	made := make([]backend.Dims, 0, len(combined))
	for _, sizes := range combined {
		made = append(made, backend.MakeDims(sizes))
	}

	return made
}
