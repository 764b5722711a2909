package backend

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Shape is what makes one request to a model cold or warm, as far as a request by itself goes. Shapes are comparable. What the server type has no
// use for is zero.
type Shape struct {
	// Batch is the number of samples in the request; for a model without batches it is 1, for one that is asked by prompts 0.
	Batch int `json:"batch,omitempty"`
	// Dims are the sizes of open dimensions.
	Dims Dims `json:"dims,omitempty"`
	// InputTokens and OutputTokens are lengths: of the prompt, and of the answer that is asked for.
	InputTokens  int `json:"input_tokens,omitempty"`
	OutputTokens int `json:"output_tokens,omitempty"`
	// Temperature is 0 for greedy sampling.
	Temperature float64 `json:"temperature,omitempty"`
	// Stream asks for the answer token by token.
	Stream bool `json:"stream,omitempty"`
	// Repeated gives each request the same prompt.
	Repeated bool `json:"repeated,omitempty"`
	// Image sends a small picture along.
	Image bool `json:"image,omitempty"`
	// Endpoint is the API that is asked.
	Endpoint Endpoint `json:"endpoint,omitempty"`
	// Adapter is asked instead of the base model; empty for the base model.
	Adapter string `json:"adapter,omitempty"`
}

// String is the shape as reports and logs write it: the keys of the grid, those that say something.
func (s Shape) String() string {
	var parts []string
	if s.Batch > 0 {
		parts = append(parts, "batch="+strconv.Itoa(s.Batch))
	}
	if s.Dims != "" {
		parts = append(parts, string(s.Dims))
	}
	if s.Endpoint == EndpointHTTP || s.Endpoint == EndpointGRPC {
		parts = append(parts, "endpoint="+s.Endpoint.String())
	}
	if s.InputTokens > 0 {
		parts = append(parts, "endpoint="+s.Endpoint.String(), "input_tokens="+strconv.Itoa(s.InputTokens))
	}
	if s.OutputTokens > 0 {
		parts = append(parts, "output_tokens="+strconv.Itoa(s.OutputTokens), "temperature="+strconv.FormatFloat(s.Temperature, 'g', -1, 64))
	}
	for _, flag := range []struct {
		name string
		on   bool
	}{{"stream", s.Stream}, {"repeated", s.Repeated}, {"image", s.Image}} {
		if flag.on {
			parts = append(parts, flag.name)
		}
	}
	if s.Adapter != "" {
		parts = append(parts, "adapter="+s.Adapter)
	}
	if parts == nil {
		return "sample"
	}

	return strings.Join(parts, " ")
}

// Dims are the sizes of open dimensions in one comparable text, as in "ids.1=128 mask.1=128": the name of an input, or * for every input, a dot, the
// axis counted from 0, and its size.
type Dims string

// MakeDims writes sizes by axis, in the order of their names.
func MakeDims(sizes map[string]int) Dims {
	parts := make([]string, 0, len(sizes))
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, sizes[name]))
	}

	return Dims(strings.Join(parts, " "))
}

// Size returns the size of an axis of an input, or 0 when none is named for it. What is named for the input itself wins over *.
func (d Dims) Size(input string, axis int) int {
	wild := 0
	for part := range strings.FieldsSeq(string(d)) {
		name, text, _ := cutLast(part, "=")
		size, err := strconv.Atoi(text)
		if err != nil {
			continue
		}
		switch name {
		case input + "." + strconv.Itoa(axis):
			return size
		case "*." + strconv.Itoa(axis):
			wild = size
		}
	}

	return wild
}

// CheckDimName says what is wrong with the name of a dimension, such as "ids.1".
func CheckDimName(name string) error {
	input, axis, found := cutLast(name, ".")
	n, err := strconv.Atoi(axis)
	if !found || err != nil || n < 0 || input == "" || strings.ContainsAny(name, " \t=") {
		return fmt.Errorf("expected an input, or * for every input, a dot and an axis counted from 0, as in \"*.1\"; got %q", name)
	}

	return nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}

	return text[:at], text[at+len(separator):], true
}
