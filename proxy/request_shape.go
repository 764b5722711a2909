package proxy

import (
	"math/bits"
	"strings"
	"time"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

// RequestShape is what of a request makes it cold or warm, coarsely: lengths are rounded up to powers of two, and no word of the request is in it but the names of
// the model and the adapter. It is comparable. The zero RequestShape is that of requests of which nothing is known.
type RequestShape struct {
	Model, Adapter string
	// Endpoint is chat, completions or embeddings; empty for a server type's own API.
	Endpoint string
	// Batch is the number of samples, 0 for a prompt.
	Batch int
	// Input is the length of the prompt in tokens, of four bytes each where it came as text; for tensors the number of elements in a sample of the first one.
	Input int
	// Output is the length of the answer that was asked for, in tokens; 0 where none was.
	Output int
	// Stream, Sampled and Image say whether the answer was to come token by token, whether the temperature was above 0, and whether a picture went along.
	Stream, Sampled, Image bool
}

// maxName bounds the names of models and adapters, in bytes. A longer one is none: callers can make them up.
const maxName = 96

// Observation is what was seen of a user's request that was answered well.
type Observation struct {
	Shape RequestShape
	// FirstByte is the time from the beginning of the exchange with the backend, held time left out, to the first byte of the answer's body.
	FirstByte time.Duration
}

// ShapeOf returns the shape of a request that is in memory as a whole, as the proxy sees that of one which passes.
func ShapeOf(path string, body []byte) RequestShape {
	s := shapeScan{}
	s.begin(path, false)
	s.see(body)

	return s.shape()
}

// Key is the shape for those who compare requests with each other: 0 for the zero shape, and hardly ever the same for two.
func (s RequestShape) Key() circuit.Shape {
	if s == (RequestShape{}) {
		return 0
	}
	hash := uint32(2166136261) // FNV-1a
	add := func(b byte) { hash = (hash ^ uint32(b)) * 16777619 }
	for _, text := range [...]string{s.Model, s.Adapter, s.Endpoint} {
		for i := range len(text) {
			add(text[i])
		}
		add(0)
	}
	for _, size := range [...]int{s.Batch, s.Input, s.Output} {
		add(byte(bits.Len(uint(size)))) //nolint:gosec // sizes are not negative
	}
	for _, flag := range [...]bool{s.Stream, s.Sampled, s.Image} {
		if flag {
			add(1)
		} else {
			add(0)
		}
	}

	return circuit.Shape(max(hash, 1))
}

// Bucket rounds a size up to a power of two, so that a shape stands for many requests; 0 stays 0.
func Bucket(size int) int {
	if size <= 0 {
		return 0
	}

	return 1 << min(bits.Len(uint(size-1)), 30)
}

// pathShape is what a path says: the API that is asked, and the model where it stands there.
func pathShape(path string) (shape RequestShape) {
	switch {
	case strings.HasSuffix(path, "/chat/completions"), strings.HasSuffix(path, "/api/chat"):
		shape.Endpoint = "chat"
	case strings.HasSuffix(path, "/completions"):
		shape.Endpoint = "completions"
	case strings.HasSuffix(path, "/embeddings"):
		shape.Endpoint = "embeddings"
	case strings.HasSuffix(path, "/generate_stream"):
		shape.Stream = true
	}
	for _, before := range [...]string{"/models/", "/predictions/"} {
		if _, name, ok := strings.Cut(path, before); ok {
			if end := strings.IndexAny(name, "/:"); end >= 0 {
				name = name[:end]
			}
			if len(name) <= maxName {
				shape.Model = name
			}

			break
		}
	}

	return shape
}
