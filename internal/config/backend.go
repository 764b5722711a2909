package config

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy"
)

// BackendConfig is the backend block of the configuration: the inference server in the same pod.
type BackendConfig struct {
	// Type is the server type, "auto" to recognise it.
	Type BackendType `yaml:"type"`
	// HTTP is where the backend speaks HTTP: host:port, [v6]:port, http://host:port/base, https://host:port/base or unix:/path. Required unless onnx, or grpc with type grpc or a sample, is set.
	HTTP units.Address `yaml:"http"`
	// GRPC is where the backend speaks gRPC: host:port, unix:/path, or https://host:port with TLS. Empty: the http address, if it speaks HTTP/2.
	GRPC units.Address `yaml:"grpc"`
	// TLS is how a backend at an https address is verified, by users' requests and by our own.
	TLS ClientTLSConfig `yaml:"tls"`
	// Headers are sent with the requests that Pilotlight makes by itself, by header name. Users' requests keep their own.
	Headers map[string]HeaderConfig `yaml:"headers"`
	// IdleUnload is "keep" to make a model warm again that the server has unloaded because nobody asked for it, "allow" to leave it cold until somebody does.
	IdleUnload IdleUnload `yaml:"idle_unload"`
	// Workers is the number of processes behind the backend's port, each of which must be warmed. "auto" takes it from the server type; a number helps where it cannot be known.
	Workers units.Auto[int] `yaml:"workers"`
	// ReadyPath is the path by which a server of type http says that it is ready. "auto" asks for the usual ones.
	ReadyPath units.Auto[string] `yaml:"ready_path"`
	// Transport carries users' HTTP/1 requests to the backend. "standard" is the standard library's, which is slower and cannot tell a connection that the backend
	// has just closed from one that is alive.
	Transport proxy.Transport `yaml:"transport"`
	// ConnectTimeout limits the making of one connection to the backend.
	ConnectTimeout units.Duration `yaml:"connect_timeout"`
	// IdleConnections are the connections to the backend that are kept for the next request.
	IdleConnections IdleConnectionsConfig `yaml:"idle_connections"`
	// ONNX is the embedded backend: a worker of our own that serves ONNX models, instead of http and grpc.
	ONNX ONNXConfig `yaml:"onnx"`
}

// HeaderConfig is the value of one header: exactly one of File and Value is set.
type HeaderConfig struct {
	// File holds the value; white space around it is cut off. It is read again for each request, so that a rotated token works.
	File string `yaml:"file"`
	// Prefix comes before the value, for example "Bearer " with its space.
	Prefix string `yaml:"prefix"`
	// Value is the value itself. It is never shown again; a file keeps it out of the configuration too.
	Value Secret `yaml:"value"`
}

// IdleConnectionsConfig bounds the connections to the backend that are kept for the next request.
type IdleConnectionsConfig struct {
	// Max is how many are kept.
	Max int `yaml:"max"`
	// Timeout is how long one is kept. It must be below the server's own keep-alive limit, which is often 5s.
	Timeout units.Duration `yaml:"timeout"`
}

// ONNXConfig is the embedded backend.
type ONNXConfig struct {
	// Models lists what is served. Empty: there is no embedded backend.
	Models []ONNXModelConfig `yaml:"models"`
	// Provider is the execution provider of ONNX Runtime.
	Provider Provider `yaml:"provider"`
	// Options are handed to the provider as they are.
	Options map[string]string `yaml:"options"`
	// Threads is the number of threads that compute one inference. "auto" is one per CPU that we may use.
	Threads units.Auto[int] `yaml:"threads"`
	// AllowCPU lets a GPU provider fall back to the CPU instead of failing.
	AllowCPU bool `yaml:"allow_cpu"`
}

// ONNXModelConfig is one model of the embedded backend.
type ONNXModelConfig struct {
	// Name is the model's name in the API.
	Name string `yaml:"name"`
	// Path is its .onnx file.
	Path string `yaml:"path"`
}

// DefaultBackend returns the settings used when the user sets none.
func DefaultBackend() BackendConfig {
	return BackendConfig{
		ConnectTimeout:  units.Duration(time.Second),
		IdleConnections: IdleConnectionsConfig{Max: 512, Timeout: units.Duration(4 * time.Second)},
	}
}

// SyntheticHeaders returns the headers for one request that Pilotlight makes by itself. Files are read each time, so that a rotated token works.
func (b BackendConfig) SyntheticHeaders() (http.Header, error) {
	header := make(http.Header, len(b.Headers))
	for name, config := range b.Headers {
		value := config.Value.Reveal()
		if config.File != "" {
			text, err := os.ReadFile(config.File)
			if err != nil {
				return nil, fmt.Errorf("read the value of header %s: %w", name, err)
			}
			value = strings.TrimSpace(string(text))
		}
		header.Set(name, config.Prefix+value)
	}

	return header, nil
}

// Address is where the backend listens: its HTTP address, or that of gRPC where there is no other.
func (b BackendConfig) Address() units.Address {
	if b.HTTP.IsZero() {
		return b.GRPC
	}

	return b.HTTP
}

// Embedded says whether the backend is a worker of our own.
func (b BackendConfig) Embedded() bool { return len(b.ONNX.Models) > 0 }

// BackendType is the kind of server that the backend is.
type BackendType int

const (
	// TypeAuto recognises the server by what it answers.
	TypeAuto BackendType = iota
	// TypeOIP is any server that speaks the Open Inference Protocol, version 2.
	TypeOIP
	// TypeTriton is NVIDIA's Triton Inference Server.
	TypeTriton
	// TypeTFServing is TensorFlow Serving.
	TypeTFServing
	// TypeTorchServe is TorchServe.
	TypeTorchServe
	// TypeVLLM is vLLM.
	TypeVLLM
	// TypeSGLang is SGLang.
	TypeSGLang
	// TypeTGI is text-generation-inference.
	TypeTGI
	// TypeTEI is text-embeddings-inference.
	TypeTEI
	// TypeLlamaCPP is llama.cpp's llama-server.
	TypeLlamaCPP
	// TypeOllama is Ollama.
	TypeOllama
	// TypeOpenAI is any server that speaks the OpenAI API.
	TypeOpenAI
	// TypeHTTP is any application, warmed by a sample request.
	TypeHTTP
	// TypeGRPC is any application that speaks gRPC, warmed by a sample call.
	TypeGRPC
)

var backendTypeNames = units.Names[BackendType]{
	TypeAuto:       "auto",
	TypeOIP:        "oip",
	TypeTriton:     "triton",
	TypeTFServing:  "tfserving",
	TypeTorchServe: "torchserve",
	TypeVLLM:       "vllm",
	TypeSGLang:     "sglang",
	TypeTGI:        "tgi",
	TypeTEI:        "tei",
	TypeLlamaCPP:   "llamacpp",
	TypeOllama:     "ollama",
	TypeOpenAI:     "openai",
	TypeHTTP:       "http",
	TypeGRPC:       "grpc",
}

// BackendTypeValues lists every value, in order.
func BackendTypeValues() []BackendType { return backendTypeNames.Values() }

// String returns the word used in the configuration.
func (t BackendType) String() string { return backendTypeNames.Of(t) }

// MarshalText implements [encoding.TextMarshaler].
func (t BackendType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *BackendType) UnmarshalText(text []byte) error {
	return backendTypeNames.Parse("server type", text, t)
}

// IdleUnload says what to do about a server that unloads a model because nobody asks for it.
type IdleUnload int

const (
	// IdleUnloadKeep makes the model warm again.
	IdleUnloadKeep IdleUnload = iota
	// IdleUnloadAllow leaves it cold until somebody asks.
	IdleUnloadAllow
)

var idleUnloadNames = units.Names[IdleUnload]{
	IdleUnloadKeep:  "keep",
	IdleUnloadAllow: "allow",
}

// IdleUnloadValues lists every value, in order.
func IdleUnloadValues() []IdleUnload { return idleUnloadNames.Values() }

// String returns the word used in the configuration.
func (i IdleUnload) String() string { return idleUnloadNames.Of(i) }

// MarshalText implements [encoding.TextMarshaler].
func (i IdleUnload) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (i *IdleUnload) UnmarshalText(text []byte) error {
	return idleUnloadNames.Parse("idle_unload", text, i)
}

// Provider is an execution provider of ONNX Runtime.
type Provider int

const (
	// ProviderCPU computes on the CPU.
	ProviderCPU Provider = iota
	// ProviderCUDA computes on an NVIDIA GPU.
	ProviderCUDA
	// ProviderTensorRT builds a TensorRT engine for an NVIDIA GPU.
	ProviderTensorRT
)

var providerNames = units.Names[Provider]{
	ProviderCPU:      "cpu",
	ProviderCUDA:     "cuda",
	ProviderTensorRT: "tensorrt",
}

// ProviderValues lists every value, in order.
func ProviderValues() []Provider { return providerNames.Values() }

// String returns the word used in the configuration.
func (p Provider) String() string { return providerNames.Of(p) }

// MarshalText implements [encoding.TextMarshaler].
func (p Provider) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Provider) UnmarshalText(text []byte) error { return providerNames.Parse("provider", text, p) }
