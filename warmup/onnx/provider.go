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

// ProviderValues lists every Provider.
func ProviderValues() []Provider { return []Provider{CPU, CUDA, TensorRT} }

// String returns the word that a user writes.
func (p Provider) String() string {
	switch p {
	case CPU:
		return "cpu"
	case CUDA:
		return "cuda"
	case TensorRT:
		return "tensorrt"
	default:
		return "unknown"
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (p Provider) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Provider) UnmarshalText(text []byte) (err error) {
	*p, err = units.ParseName("provider", text, ProviderValues())

	return err
}
