package backend

import (
	"fmt"
	"slices"
	"strings"
)

// serverType is one row of the table of server types.
type serverType struct {
	name string
	// takes are the keys of the grid that some model of such a server has.
	takes []Axis
	make  func(*Client, Options) Dialect
	paths Paths
}

// serverTypes lists what this program can speak to.
func serverTypes() []serverType {
	return []serverType{
		{"oip", protocolAxes(), func(c *Client, _ Options) Dialect { return NewOIP(c) }, &OIP{}},
		{"triton", protocolAxes(), func(c *Client, _ Options) Dialect { return NewTriton(c) }, &Triton{}},
		{"tfserving", tensorAxes(), func(c *Client, _ Options) Dialect { return NewTFServing(c) }, &TFServing{}},
		{"torchserve", nil, func(c *Client, o Options) Dialect { return NewTorchServe(c, o) }, &TorchServe{}},
		{"vllm", promptAxes(), func(c *Client, _ Options) Dialect { return NewVLLM(c) }, &VLLM{}},
		{"sglang", promptAxes(), func(c *Client, _ Options) Dialect { return NewSGLang(c) }, &SGLang{}},
		{"tgi", promptAxes(), func(c *Client, _ Options) Dialect { return NewTGI(c) }, &TGI{}},
		{"tei", []Axis{AxisBatch, AxisInputTokens, AxisRepeated}, func(c *Client, _ Options) Dialect { return NewTEI(c) }, &TEI{}},
		{"llamacpp", promptAxes(), func(c *Client, _ Options) Dialect { return NewLlamaCPP(c) }, &LlamaCPP{}},
		{"ollama", promptAxes(), func(c *Client, _ Options) Dialect { return NewOllama(c) }, &Ollama{}},
		{"openai", promptAxes(), func(c *Client, _ Options) Dialect { return NewOpenAI(c) }, &OpenAI{}},
		{"http", nil, func(c *Client, o Options) Dialect { return NewHTTP(c, o) }, &HTTP{}},
		{"grpc", nil, func(c *Client, o Options) Dialect { return NewGRPC(c, o) }, &GRPC{}},
	}
}

func tensorAxes() []Axis { return []Axis{AxisBatch, AxisDims} }

// protocolAxes are those of the Open Inference Protocol, which has two front ends.
func protocolAxes() []Axis { return append(tensorAxes(), AxisEndpoint) }

func promptAxes() []Axis {
	return []Axis{AxisInputTokens, AxisOutputTokens, AxisTemperature, AxisStream, AxisRepeated, AxisImage, AxisEndpoint, AxisAdapter}
}

func named(name string) (serverType, error) {
	types := serverTypes()
	at := slices.IndexFunc(types, func(t serverType) bool { return t.name == name })
	if at < 0 {
		return serverType{}, fmt.Errorf("find server type: %q is none, expected one of %s", name, strings.Join(Names(), ", "))
	}

	return types[at], nil
}

// Names lists the server types.
func Names() []string {
	types := serverTypes()
	names := make([]string, 0, len(types))
	for _, t := range types {
		names = append(names, t.name)
	}

	return names
}

// New returns the Dialect of that server type.
func New(name string, client *Client, options Options) (Dialect, error) {
	found, err := named(name)
	if err != nil {
		return nil, err
	}
	if sample := options.Sample; sample != nil && sample.GRPC() != (name == "grpc") && slices.Contains([]string{"grpc", "http", "torchserve"}, name) {
		return nil, fmt.Errorf("speak to a server of type %s: the sample begins with %q, expected METHOD /path for HTTP, /package.Service/Method for gRPC", name, strings.TrimSpace(sample.Method+" "+sample.Path))
	}

	return found.make(client, options), nil
}

// Takes lists the keys of the grid that a server type has.
func Takes(name string) ([]Axis, error) {
	found, err := named(name)

	return found.takes, err
}

// Compares lists the server types whose answers can be compared with a reference.
func Compares() []string {
	var names []string
	for _, t := range serverTypes() {
		if _, ok := t.make(nil, Options{}).(Comparer); ok {
			names = append(names, t.name)
		}
	}

	return names
}

// AnyPaths are the paths of a server of which nobody knows yet what it is: what is a control, ready or live path for one type is one, but for "/", by
// which some applications are asked.
type AnyPaths struct{}

// ReadyPath implements [Paths].
func (AnyPaths) ReadyPath(path string) (string, bool) {
	for _, t := range serverTypes() {
		if model, ok := t.paths.ReadyPath(path); ok {
			return model, true
		}
	}

	return "", false
}

// LivePath implements [Paths].
func (AnyPaths) LivePath(path string) bool {
	for _, t := range serverTypes() {
		if !isOneOf(path, "") && t.paths.LivePath(path) {
			return true
		}
	}

	return false
}

// ControlPath implements [Paths].
func (AnyPaths) ControlPath(path string) bool {
	for _, t := range serverTypes() {
		if t.paths.ControlPath(path) {
			return true
		}
	}

	return false
}
