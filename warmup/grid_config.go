package warmup

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// Endpoint is the API by which a model is asked.
type Endpoint = backend.Endpoint

// EndpointValues lists every Endpoint, in order.
func EndpointValues() []Endpoint { return backend.EndpointValues() }

// GridConfig spans shapes: every combination of its lists. What is left out is derived from the model: batches from its metadata, and for language models
// a short prompt with one variation at a time. A key that the server type has no use for is refused.
type GridConfig struct {
	// Batch lists batch sizes. Empty: 1, the largest, and the powers of two in between.
	Batch []int `yaml:"batch"`
	// Concurrency lists how many requests are in flight at once. Empty: 1 and the number of workers.
	Concurrency []int `yaml:"concurrency"`
	// Dims lists sizes of dimensions that the model leaves open, by input and axis: {"ids.1": [16, 128]}, or {"*.1": [16, 128]} for that axis of every input. Empty: 1.
	Dims map[string][]int `yaml:"dims"`
	// InputTokens lists lengths of prompts. Empty: 32, the longest up to 512 that the model takes, and the powers of two in between.
	InputTokens []int `yaml:"input_tokens"`
	// OutputTokens lists lengths of answers. Empty: 8.
	OutputTokens []int `yaml:"output_tokens"`
	// Temperature lists sampling temperatures: 0 and more than 0 are different code in most servers. Empty: 0.7, and 0 once.
	Temperature []float64 `yaml:"temperature"`
	// Stream lists whether answers come token by token. Empty: true, and false once.
	Stream []bool `yaml:"stream"`
	// Repeated lists whether each request has the same prompt. Empty: false, so that no cache passes for warmth.
	Repeated []bool `yaml:"repeated"`
	// Image lists whether a picture goes along. Empty: false.
	Image []bool `yaml:"image"`
	// Endpoint lists the APIs to ask: native, completions, chat, embeddings; for server types oip and triton http and grpc. Empty: that of the server type, and the
	// others that it has once each: gRPC where backend.grpc is set.
	Endpoint []Endpoint `yaml:"endpoint"`
	// Adapter lists adapters to ask for instead of the base model, which is "". Empty: the base model.
	Adapter []string `yaml:"adapter"`
}

// axes lists the axes that the configuration names.
func (g GridConfig) axes() []backend.Axis {
	var named []backend.Axis
	for _, axis := range []struct {
		axis backend.Axis
		n    int
	}{
		{backend.AxisBatch, len(g.Batch)},
		{backend.AxisDims, len(g.Dims)},
		{backend.AxisInputTokens, len(g.InputTokens)},
		{backend.AxisOutputTokens, len(g.OutputTokens)},
		{backend.AxisTemperature, len(g.Temperature)},
		{backend.AxisStream, len(g.Stream)},
		{backend.AxisRepeated, len(g.Repeated)},
		{backend.AxisImage, len(g.Image)},
		{backend.AxisEndpoint, len(g.Endpoint)},
		{backend.AxisAdapter, len(g.Adapter)},
	} {
		if axis.n > 0 {
			named = append(named, axis.axis)
		}
	}

	return named
}

// check says what is wrong with the values by themselves.
func (g GridConfig) check() error {
	lists := map[string][]int{
		"batch": g.Batch, "concurrency": g.Concurrency, "input_tokens": g.InputTokens, "output_tokens": g.OutputTokens,
	}
	for name, sizes := range g.Dims {
		if err := backend.CheckDimName(name); err != nil {
			return fmt.Errorf("dims: %w", err)
		}
		if len(sizes) == 0 {
			return fmt.Errorf("dims: %s has no sizes", name)
		}
		lists["dims "+name] = sizes
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if slices.ContainsFunc(lists[name], func(n int) bool { return n < 1 }) {
			return fmt.Errorf("%s is %v, expected numbers of at least 1", name, lists[name])
		}
	}
	if slices.ContainsFunc(g.Temperature, func(t float64) bool { return t < 0 }) {
		return fmt.Errorf("temperature is %v, expected numbers of at least 0", g.Temperature)
	}

	return nil
}
