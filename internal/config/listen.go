package config

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// ListenConfig is the listen block of the configuration. Changed addresses need a restart.
type ListenConfig struct {
	// Data is where users' requests arrive: HTTP/1.1, HTTP/2 without TLS and gRPC on one port. :port listens on all interfaces, over IPv4 and IPv6.
	Data units.Listen `yaml:"data"`
	// Health is where probes and metrics are answered. Nothing is ever proxied there.
	Health units.Listen `yaml:"health"`
	// Admin is the status page and the actions; only on a loopback address or a Unix socket.
	Admin units.Listen `yaml:"admin"`
	// AdminTokenFile holds the bearer token for what acts. An existing file is read and never overwritten. "auto" is a file of mode 0600 in the runtime directory.
	AdminTokenFile units.Auto[string] `yaml:"admin_token_file"`
	// Deny lists the paths that are refused with 403 on the data port, decoded and with dots resolved; * stands for any characters, slashes too. A gRPC method is
	// a path as well. "auto" is the control paths of the server type, such as those that load and unload models; [] allows all.
	Deny units.AutoList `yaml:"deny"`
	// IdleTimeout is how long a client's connection may be idle. It should be longer than that of a proxy in front: Envoy's is an hour. 0 means no limit.
	IdleTimeout units.Duration `yaml:"idle_timeout"`
}

// DefaultListen returns the settings used when the user sets none.
func DefaultListen() ListenConfig {
	return ListenConfig{
		Data:        units.Listen{Network: "tcp", Host: ":9000"},
		Health:      units.Listen{Network: "tcp", Host: ":9001"},
		Admin:       units.Listen{Network: "tcp", Host: "localhost:9002"},
		IdleTimeout: units.Duration(65 * time.Minute),
	}
}
