package config

import (
	"reflect"

	"github.com/pilotlight-proxy/pilotlight/circuit"
	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/telemetry"
	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

//go:generate go test . -run ^TestSchemaIsFresh$ -update

// Version is the only version of the file format that this program reads.
const Version = 1

// Config is the whole configuration, in the order of the file. What is documented here is what the JSON schema and editors show.
type Config struct {
	// Version is the version of the file format: 1.
	Version int `jsonschema:"required,enum=1" yaml:"version"`
	// Backend is the inference server in the same pod.
	Backend BackendConfig `yaml:"backend"`
	// Models is what the pod must be warm for. Empty: the base models that the backend has loaded.
	Models []health.ModelConfig `yaml:"models"`
	// Readiness is what /readyz answers where withheld readiness and held requests exclude each other.
	Readiness health.ReadinessConfig `yaml:"readiness"`
	// Listen is where Pilotlight listens.
	Listen ListenConfig `yaml:"listen"`
	// Limits bounds what one client may ask of the proxy.
	Limits proxy.LimitsConfig `yaml:"limits"`
	// Timeouts gives every wait on the data path its own clock. 0 means no limit.
	Timeouts proxy.TimeoutsConfig `yaml:"timeouts"`
	// Hold bounds the requests that wait inside Pilotlight before anything was sent to the backend.
	Hold proxy.HoldConfig `yaml:"hold"`
	// Concurrency shapes how many requests are let through at once.
	Concurrency proxy.ConcurrencyConfig `yaml:"concurrency"`
	// Warmup is how the backend is warmed.
	Warmup warmup.Config `yaml:"warmup"`
	// Health is how the backend is checked.
	Health health.Config `yaml:"health"`
	// Circuit is when the backend may not be called, and how it heals.
	Circuit circuit.Config `yaml:"circuit"`
	// Drain is how Pilotlight leaves.
	Drain DrainConfig `yaml:"drain"`
	// XDS is what Envoy and gRPC clients in the same pod are told.
	XDS XDSConfig `yaml:"xds"`
	// Telemetry is what Pilotlight says about itself.
	Telemetry telemetry.Config `yaml:"telemetry"`
}

// Default returns the configuration of somebody who wrote nothing. It puts together what each room holds to be the best default, and adds none of its own.
// The backend alone has no default: it must be named.
func Default() *Config {
	return &Config{
		Version:     Version,
		Backend:     DefaultBackend(),
		Readiness:   health.DefaultReadiness(),
		Listen:      DefaultListen(),
		Limits:      proxy.DefaultLimits(),
		Timeouts:    proxy.DefaultTimeouts(),
		Hold:        proxy.DefaultHold(),
		Concurrency: proxy.DefaultConcurrency(),
		Warmup:      warmup.DefaultConfig(),
		Health:      health.DefaultConfig(),
		Circuit:     circuit.DefaultConfig(),
		Drain:       DefaultDrain(),
		XDS:         DefaultXDS(),
		Telemetry:   telemetry.DefaultConfig(),
	}
}

// fresh is a value of that type before its keys are read: the defaults of what stands in lists, or only where somebody writes it.
func fresh(of reflect.Type) reflect.Value {
	switch of {
	case reflect.TypeFor[health.ModelConfig](): // who names a model wants to be kept off it until it is warm
		return reflect.ValueOf(health.ModelConfig{Required: true})
	case reflect.TypeFor[warmup.StepConfig]():
		return reflect.ValueOf(warmup.DefaultStep())
	case reflect.TypeFor[warmup.CallConfig]():
		return reflect.ValueOf(warmup.DefaultCall())
	case reflect.TypeFor[warmup.InferConfig]():
		return reflect.ValueOf(warmup.DefaultInfer())
	default:
		return reflect.Zero(of)
	}
}
