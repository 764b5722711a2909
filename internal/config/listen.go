package config

import (
	"time"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/proxy"
)

// ListenConfig is the listen block of the configuration. Changed addresses need a restart.
type ListenConfig struct {
	// Data is where users' requests arrive: HTTP/1.1, HTTP/2 and gRPC on one port. :port listens on all interfaces, over IPv4 and IPv6.
	Data units.Listen `yaml:"data"`
	// Extra lists further addresses where users' requests arrive, for clients that know a port for each protocol. What holds for the data port holds for them.
	Extra []ExtraListenConfig `yaml:"extra"`
	// TLS is what the data port and the extra addresses show to clients. The files are read again when they have changed. The health port stays without TLS.
	TLS ServerTLSConfig `yaml:"tls"`
	// Health is where probes and metrics are answered. Nothing is ever proxied there.
	Health units.Listen `yaml:"health"`
	// Admin is the status page and the actions; only on a loopback address or a Unix socket.
	Admin units.Listen `yaml:"admin"`
	// Forwarded is what becomes of X-Forwarded-For, -Host, -Proto and Forwarded. "append" adds the client to what those in front said; "replace" writes what
	// we see in place of what the client said; "keep" touches nothing.
	Forwarded proxy.Forwarded `yaml:"forwarded"`
	// AdminTokenFile holds the bearer token for what acts. An existing file is read and never overwritten. "auto" is a file of mode 0600 in the runtime directory.
	AdminTokenFile units.Auto[string] `yaml:"admin_token_file"`
	// Deny lists the paths that are refused with 403 on the data port, decoded and with dots resolved; * stands for any characters, slashes too. A gRPC method is
	// a path as well. "auto" is the control paths of the server type, such as those that load and unload models; [] allows all.
	Deny units.AutoList `yaml:"deny"`
	// IdleTimeout is how long a client's connection may be idle. It should be longer than that of a proxy in front: Envoy's is an hour. 0 means no limit.
	IdleTimeout units.Duration `yaml:"idle_timeout"`
	// MaxConnectionAge is the age, give or take a tenth, from which on a client's connection ends with its next answer, so that clients spread over pods that
	// came later. What is under way is never cut off. 0 means no limit.
	MaxConnectionAge units.Duration `yaml:"max_connection_age"`
}

// ExtraListenConfig is one more address where users' requests arrive.
type ExtraListenConfig struct {
	// Address is where we listen.
	Address units.Listen `yaml:"address"`
	// To is where the requests go: "http" as from the data port, gRPC calls to backend.grpc and all else to backend.http; "grpc" everything to backend.grpc.
	To proxy.Target `yaml:"to"`
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
