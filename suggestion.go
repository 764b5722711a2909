package main

import (
	"fmt"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/backend"
)

// liveShape is the shape of a user's request in the words of the plan. It allocates nothing: it is made for every request.
func liveShape(seen proxy.RequestShape) warmup.LiveShape {
	made := warmup.LiveShape{Model: seen.Model}
	if seen.Endpoint == "" && seen.Output == 0 && !seen.Stream {
		made.Of.Batch = seen.Batch // the number of elements does not say which dimension is how large

		return made
	}
	made.Of = backend.Shape{InputTokens: seen.Input, OutputTokens: seen.Output, Stream: seen.Stream, Image: seen.Image, Adapter: seen.Adapter}
	if seen.Sampled {
		made.Of.Temperature = warmup.Sampled
	}
	switch seen.Endpoint {
	case "chat":
		made.Of.Endpoint = backend.EndpointChat
	case "completions":
		made.Of.Endpoint = backend.EndpointCompletions
	case "embeddings":
		made.Of.Endpoint = backend.EndpointEmbeddings
	}

	return made
}

// suggestion is what would warm a shape, as a step of the plan says it, in one line of YAML.
func suggestion(shape warmup.LiveShape) string {
	var grid []string
	add := func(there bool, format string, value any) {
		if there {
			grid = append(grid, fmt.Sprintf(format, value))
		}
	}
	of := shape.Of
	generates := of.OutputTokens > 0 || of.Stream
	add(of.Batch > 0, "batch: [%d]", of.Batch)
	add(of.InputTokens > 0, "input_tokens: [%d]", of.InputTokens)
	add(of.OutputTokens > 0, "output_tokens: [%d]", of.OutputTokens)
	add(generates, "temperature: [%g]", of.Temperature)
	add(generates, "stream: [%t]", of.Stream)
	add(of.Image, "image: [%t]", true)
	add(of.Endpoint != backend.EndpointNative, "endpoint: [%s]", of.Endpoint)
	add(of.Adapter != "", "adapter: [%q]", of.Adapter)

	return fmt.Sprintf("infer: {model: %q, grid: {%s}}", shape.Model, strings.Join(grid, ", "))
}
