package telemetry

import "github.com/pilotlight-proxy/pilotlight/internal/units"

// Config is the telemetry block of the configuration: what Pilotlight says about itself.
type Config struct {
	// Traces is where traces of requests go, and of which requests.
	Traces TracesConfig `yaml:"traces"`
	// Metrics is where metrics go, beside /metrics on the health port, which is always there.
	Metrics MetricsConfig `yaml:"metrics"`
	// ServerTiming adds a Server-Timing header to answers, with the time held and the backend's time. Never to gRPC.
	ServerTiming bool `yaml:"server_timing"`
	// Log is the log on the standard error stream.
	Log LogConfig `yaml:"log"`
}

// TracesConfig says which requests are traced.
type TracesConfig struct {
	// OTLP is the collector that gets the traces: http://host:port or https://host:port. Empty: no request is traced and no header of a trace is touched.
	OTLP units.Address `yaml:"otlp"`
	// Protocol is how the collector is spoken to, for traces and metrics alike.
	Protocol Protocol `yaml:"protocol"`
	// Sample is the share, from 0 to 1, of the requests without a trace that begin one. Whoever calls with a trace has decided, and is never overridden.
	Sample float64 `yaml:"sample"`
	// Propagators are the headers by which traces come and go on.
	Propagators []Propagator `yaml:"propagators"`
}

// MetricsConfig says where metrics go.
type MetricsConfig struct {
	// OTLP is the collector to which metrics are pushed, each minute: http://host:port or https://host:port. Empty: none.
	OTLP units.Address `yaml:"otlp"`
	// IncludeBackend adds the backend's own /metrics to ours, so that one scrape of the health port gets both.
	IncludeBackend bool `yaml:"include_backend"`
}

// LogConfig shapes the log.
type LogConfig struct {
	// Level is the least severe that is logged.
	Level LogLevel `yaml:"level"`
	// Format is "text" for people and "json" for machines; "auto" is text on a terminal.
	Format LogFormat `yaml:"format"`
}

// DefaultConfig returns the settings used when the user sets none.
func DefaultConfig() Config {
	return Config{
		Traces:       TracesConfig{Sample: 0.01, Propagators: []Propagator{TraceContext, Baggage}},
		ServerTiming: true,
		Log:          LogConfig{Level: LevelInfo},
	}
}
