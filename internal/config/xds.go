package config

import (
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/xds"
)

// XDSConfig is the xds block of the configuration: what Envoy and gRPC clients in the same pod are told. A change needs a restart.
type XDSConfig struct {
	// Serve is where an aggregated discovery server tells Envoy and proxyless gRPC clients of our data port, such as localhost:18000. Empty: none.
	Serve units.Listen `yaml:"serve"`
	// ServeWhileWarming is what they are told while the backend is not warm: "hold" to send, since early requests are held; "omit" that there is no endpoint yet.
	ServeWhileWarming xds.WhileWarming `yaml:"serve_while_warming"`
	// Envoy is what is written into the resources that Envoy gets.
	Envoy xds.EnvoyConfig `yaml:"envoy"`
	// TLS is what the discovery server shows to clients. Beyond loopback it is required, unless insecure is true. The files are read again when they have changed.
	TLS ServerTLSConfig `yaml:"tls"`
	// Insecure lets the discovery server listen beyond loopback without TLS.
	Insecure bool `yaml:"insecure"`
}

// DefaultXDS returns the settings used when the user sets none.
func DefaultXDS() XDSConfig { return XDSConfig{Envoy: xds.DefaultEnvoy()} }

// checkXDS reports a discovery server that tells too much to too many, and numbers out of their bounds.
func (d *document) checkXDS(c *Config) {
	x := c.XDS
	if !x.Serve.Loopback() && !x.Serve.IsZero() && x.TLS.IsZero() && !x.Insecure {
		d.reportf("xds.serve", "expected a loopback address such as localhost:18000 or unix:/path, got %s: beyond loopback it needs xds.tls, or xds.insecure: true", x.Serve)
	}
	if !x.Serve.IsZero() && !c.Listen.TLS.IsZero() {
		d.reportf("xds.serve", "cannot be set together with listen.tls: those who are told of the data port are told of no TLS")
	}
	outliers := x.Envoy.OutlierDetection
	d.atLeast(0, map[string]int{
		"xds.envoy.outlier_detection.consecutive_5xx":            outliers.Consecutive5xx,
		"xds.envoy.outlier_detection.consecutive_gateway_errors": outliers.ConsecutiveGatewayErrors,
	})
	d.percent("xds.envoy.panic_threshold", x.Envoy.PanicThreshold)
	d.percent("xds.envoy.outlier_detection.max_ejection_percent", outliers.MaxEjectionPercent)
	d.notZero(map[string]units.Duration{
		"xds.envoy.outlier_detection.interval":           outliers.Interval,
		"xds.envoy.outlier_detection.base_ejection_time": outliers.BaseEjectionTime,
	})
}

// percent reports what is no share in percent.
func (d *document) percent(path string, n int) {
	const whole = 100
	if n < 0 || n > whole {
		d.reportf(path, "expected a number from 0 to %d, got %d", whole, n)
	}
}
