package xds

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// EnvoyConfig is what is written into the resources that Envoy gets. Limits of connections, requests and heads follow from the rest of the configuration.
type EnvoyConfig struct {
	// Listen is where Envoy is told to accept users' requests. :port listens on all interfaces, over IPv4 and IPv6. Proxyless gRPC clients have no use for it.
	Listen units.Listen `yaml:"listen"`
	// PanicThreshold is the share of healthy endpoints, in percent, below which Envoy sends to endpoints that are not healthy as well. 0 never does. Envoy's own default is 50,
	// with which a single endpoint that is unhealthy or drains gets every request.
	PanicThreshold int `yaml:"panic_threshold"`
	// SlowStart is for how long Envoy ramps what it sends to an endpoint that is new to it. It has an effect only among several endpoints. 0s: it does not.
	SlowStart units.Duration `yaml:"slow_start"`
	// OutlierDetection lets Envoy eject the endpoint by itself. Off by default: the breaker behind the endpoint knows more, and with a single endpoint an ejection refuses every request.
	OutlierDetection OutlierDetectionConfig `yaml:"outlier_detection"`
}

// OutlierDetectionConfig says when Envoy ejects an endpoint. gRPC clients do not count consecutive errors.
type OutlierDetectionConfig struct {
	// Consecutive5xx is how many answers from 500 on in a row eject an endpoint. 0: they do not.
	Consecutive5xx int `yaml:"consecutive_5xx"`
	// ConsecutiveGatewayErrors is how many answers of 502, 503 and 504 in a row eject an endpoint. 0: they do not.
	ConsecutiveGatewayErrors int `yaml:"consecutive_gateway_errors"`
	// Interval is the time between two looks at who may come back.
	Interval units.Duration `yaml:"interval"`
	// BaseEjectionTime is how long the first ejection lasts; each further one lasts longer.
	BaseEjectionTime units.Duration `yaml:"base_ejection_time"`
	// MaxEjectionPercent is the most endpoints, in percent, that are ejected at once; at least one may always be.
	MaxEjectionPercent int `yaml:"max_ejection_percent"`
}

// DefaultEnvoy returns the settings used when the user sets none.
func DefaultEnvoy() EnvoyConfig {
	return EnvoyConfig{
		Listen: units.Listen{Network: "tcp", Host: ":10000"},
		// Envoy's own.
		OutlierDetection: OutlierDetectionConfig{
			Interval:           units.Duration(10 * time.Second),
			BaseEjectionTime:   units.Duration(30 * time.Second),
			MaxEjectionPercent: 10,
		},
	}
}

// detects says whether anything ejects an endpoint.
func (c OutlierDetectionConfig) detects() bool {
	return c.Consecutive5xx > 0 || c.ConsecutiveGatewayErrors > 0
}
