package backend

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Axis is one way in which requests to a model can differ so that one is cold where another is warm. Its word is the key of the grid that spans it.
type Axis int

const (
	// AxisBatch is the number of samples in a request.
	AxisBatch Axis = iota
	// AxisDims are the sizes of dimensions that the model leaves open.
	AxisDims
	// AxisInputTokens is the length of the prompt.
	AxisInputTokens
	// AxisOutputTokens is the length of the answer that is asked for.
	AxisOutputTokens
	// AxisTemperature chooses between greedy and random sampling, which are different kernels.
	AxisTemperature
	// AxisStream says whether the answer comes token by token.
	AxisStream
	// AxisRepeated says whether each request has the same prompt, so that a prefix cache is what gets warm.
	AxisRepeated
	// AxisImage says whether a picture goes with the prompt.
	AxisImage
	// AxisEndpoint is the API by which the model is asked.
	AxisEndpoint
	// AxisAdapter is the adapter on top of the base model.
	AxisAdapter
)

var axisNames = units.Names[Axis]{
	AxisBatch:        "batch",
	AxisDims:         "dims",
	AxisInputTokens:  "input_tokens",
	AxisOutputTokens: "output_tokens",
	AxisTemperature:  "temperature",
	AxisStream:       "stream",
	AxisRepeated:     "repeated",
	AxisImage:        "image",
	AxisEndpoint:     "endpoint",
	AxisAdapter:      "adapter",
}

// AxisValues lists every value, in order.
func AxisValues() []Axis { return axisNames.Values() }

// String returns the key of the grid.
func (a Axis) String() string { return axisNames.Of(a) }

// MarshalText implements [encoding.TextMarshaler].
func (a Axis) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
