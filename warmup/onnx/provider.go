package onnx

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Provider says what ONNX Runtime computes on.
type Provider int

// The providers that the worker knows how to ask for.
const (
	CPU Provider = iota
	CUDA
	TensorRT
)

var providerNames = units.Names[Provider]{
	CPU:      "cpu",
	CUDA:     "cuda",
	TensorRT: "tensorrt",
}

// ProviderValues lists every Provider.
func ProviderValues() []Provider { return providerNames.Values() }

// String returns the word that a user writes.
func (p Provider) String() string { return providerNames.Of(p) }

// MarshalText implements [encoding.TextMarshaler].
func (p Provider) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Provider) UnmarshalText(text []byte) error { return providerNames.Parse("provider", text, p) }
