package warmup

import (
	"slices"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// Sampled is the temperature of a recorded shape whose users sample.
const Sampled = warmTemperature

// recorded lists the shapes that users send to a model, for a step that leaves its shapes to us. Whoever writes a grid says what is warmed.
func (r *Runner) recorded(s step, model backend.Model) []backend.Shape {
	if r.settings.Recorded == nil || len(s.infer.Grid.axes()) > 0 {
		return nil
	}
	var shapes []backend.Shape
	for _, shape := range r.settings.Recorded(model.Name) {
		shapes = append(shapes, shape.Of)
	}

	return shapes
}

// beyond lays out the recorded shapes that the plan has none like, as far as the model takes them. They are extra, since users were served without them so far, and
// guessed: a request that we make up may be refused where a user's was not.
func beyond(plan []planned, recorded []backend.Shape, model backend.Model) []planned {
	var more []planned
	for _, shape := range recorded {
		if fits(gridOf(shape), model.Takes, model.Name) != nil || !offered(shape, model) {
			continue
		}
		if shape.InputTokens == 0 { // all but the batch is as it is for the others
			batch := shape.Batch
			shape = plan[0].shape
			shape.Batch = batch
		}
		shape = clamped(shape, model)
		like := func(p planned) bool { return alike(p.shape, shape) }
		if within(shape, model) == nil && !slices.ContainsFunc(plan, like) && !slices.ContainsFunc(more, like) {
			more = append(more, planned{shape: shape, guessed: true, extra: true})
		}
	}

	return more
}

// Fits says why a server type takes no request of that shape.
func (s LiveShape) Fits(serverType string) error {
	takes, err := backend.Takes(serverType)
	if err != nil {
		return err
	}

	return fits(gridOf(s.Of), takes, "server type "+serverType)
}

// gridOf spans one shape, by what is not zero in it.
func gridOf(shape backend.Shape) (grid GridConfig) {
	sizes := func(n int) []int {
		if n == 0 {
			return nil
		}

		return []int{n}
	}
	grid.Batch, grid.InputTokens, grid.OutputTokens = sizes(shape.Batch), sizes(shape.InputTokens), sizes(shape.OutputTokens)
	if shape.Temperature > 0 {
		grid.Temperature = []float64{shape.Temperature}
	}
	if shape.Stream {
		grid.Stream = []bool{true}
	}
	if shape.Image {
		grid.Image = []bool{true}
	}
	if shape.Endpoint != backend.EndpointNative {
		grid.Endpoint = []Endpoint{shape.Endpoint}
	}
	if shape.Adapter != "" {
		grid.Adapter = []string{shape.Adapter}
	}

	return grid
}

// offered says whether the server names what the shape asks for. A shape that says nothing but the model asks for nothing.
func offered(shape backend.Shape, model backend.Model) bool {
	switch {
	case shape.Batch == 0 && shape.InputTokens == 0, shape.Batch > 1 && !model.Batched:
		return false
	case shape.Adapter != "" && !slices.Contains(model.Adapters, shape.Adapter):
		return false
	default:
		return shape.InputTokens == 0 || len(model.Endpoints) == 0 || slices.Contains(model.Endpoints, shape.Endpoint)
	}
}

// clamped takes back what rounding up to a power of two has put beyond the limits of the model.
func clamped(shape backend.Shape, model backend.Model) backend.Shape {
	clamp := func(size *int, most int) {
		if *size > most && *size/2 < most {
			*size = most
		}
	}
	if model.MaxBatch > 0 {
		clamp(&shape.Batch, model.MaxBatch)
	}
	if model.MaxInput > 0 {
		clamp(&shape.InputTokens, model.MaxInput-model.MaxInput/8) // as lengths has it
	}
	if model.MaxTokens > 0 {
		room := model.MaxTokens - shape.OutputTokens
		clamp(&shape.InputTokens, room-max(room, 0)/8)
	}

	return shape
}

// alike says whether two shapes would be recorded as one: sizes are rounded up to powers of two there, and how a prompt repeats is not seen.
func alike(planned, recorded backend.Shape) bool {
	near := func(a, b int) bool { return a == b || (a < b && 2*a > b) }
	if !near(planned.Batch, recorded.Batch) || !near(planned.InputTokens, recorded.InputTokens) || !near(planned.OutputTokens, recorded.OutputTokens) {
		return false
	}
	planned.Batch, planned.InputTokens, planned.OutputTokens = recorded.Batch, recorded.InputTokens, recorded.OutputTokens

	return planned == recorded
}
