package xds

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Bootstrap is what a client in the same pod must know to find a Publisher.
type Bootstrap struct {
	// Serve is where the publisher listens.
	Serve    units.Listen
	Families Families
	// Node is what the client calls itself.
	Node string
	// TLS says that the publisher has TLS; CA is the file with its roots, Cert and Key are what it is shown, if anything.
	TLS           bool
	CA, Cert, Key string
	// Admin is where Envoy answers questions about itself; zero: nowhere.
	Admin units.Listen
	// Connections bounds the connections that Envoy accepts, without which it warns; 0: there is no bound.
	Connections int
	// Delta lets Envoy ask for changes in place of full states.
	Delta bool
}

// object is a JSON object.
type object = map[string]any

const (
	typeOf     = "@type"
	extensions = "type.googleapis.com/envoy.extensions."
	// adsCluster is what Envoy calls the way to the publisher.
	adsCluster = "pilotlight-xds"
)

// GRPC is the bootstrap of a gRPC client, for GRPC_XDS_BOOTSTRAP. The client dials xds:///pilotlight.
func (b Bootstrap) GRPC() (json.RawMessage, error) {
	at, err := reached(b.Serve, b.Families)
	if err != nil {
		return nil, fmt.Errorf("xds.serve: %w", err)
	}
	credentials := object{"type": "insecure"}
	if b.TLS {
		files := object{"ca_certificate_file": b.CA}
		if b.Cert != "" {
			files["certificate_file"], files["private_key_file"] = b.Cert, b.Key
		}
		credentials = object{"type": "tls", "config": files}
	}

	return encode(object{
		"xds_servers": []any{object{
			"server_uri":      at.target(),
			"channel_creds":   []any{credentials},
			"server_features": []string{"xds_v3"},
		}},
		"node": b.node(),
	})
}

// Envoy is the bootstrap of Envoy.
func (b Bootstrap) Envoy() (json.RawMessage, error) {
	server, err := b.envoyCluster()
	if err != nil {
		return nil, err
	}
	form := "GRPC"
	if b.Delta {
		form = "DELTA_GRPC"
	}
	source := object{"resource_api_version": "V3", "ads": object{}}
	made := object{
		"node": b.node(),
		"dynamic_resources": object{
			"ads_config": object{
				"api_type":                       form,
				"transport_api_version":          "V3",
				"set_node_on_first_message_only": true,
				"grpc_services":                  []any{object{"envoy_grpc": object{"cluster_name": adsCluster}}},
			},
			"cds_config": source,
			"lds_config": source,
		},
		"static_resources": object{"clusters": []any{server}},
	}
	if !b.Admin.IsZero() {
		at, err := reached(b.Admin, b.Families)
		if err != nil {
			return nil, fmt.Errorf("admin address: %w", err)
		}
		made["admin"] = object{"address": at.json()}
	}
	if b.Connections > 0 {
		made["overload_manager"] = object{"resource_monitors": []any{object{
			"name": "envoy.resource_monitors.global_downstream_max_connections",
			"typed_config": object{
				typeOf:                              extensions + "resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
				"max_active_downstream_connections": b.Connections,
			},
		}}}
	}

	return encode(made)
}

// envoyCluster is Envoy's way to the publisher.
func (b Bootstrap) envoyCluster() (object, error) {
	at, err := reached(b.Serve, b.Families)
	if err != nil {
		return nil, fmt.Errorf("xds.serve: %w", err)
	}
	made := object{
		"name":            adsCluster,
		"type":            "STATIC",
		"connect_timeout": "1s",
		"typed_extension_protocol_options": object{httpOptions: object{
			typeOf: extensions + "upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": object{"http2_protocol_options": object{
				"connection_keepalive": object{"interval": quietStream.String(), "timeout": pingPatience.String()},
			}},
		}},
		"load_assignment": object{
			"cluster_name": adsCluster,
			"endpoints":    []any{object{"lb_endpoints": []any{object{"endpoint": object{"address": at.json()}}}}},
		},
	}
	if b.TLS {
		shown := object{"validation_context": object{"trusted_ca": object{"filename": b.CA}}}
		if b.Cert != "" {
			shown["tls_certificates"] = []any{object{"certificate_chain": object{"filename": b.Cert}, "private_key": object{"filename": b.Key}}}
		}
		shown["alpn_protocols"] = []string{"h2"}
		made["transport_socket"] = object{
			"name":         "envoy.transport_sockets.tls",
			"typed_config": object{typeOf: extensions + "transport_sockets.tls.v3.UpstreamTlsContext", "common_tls_context": shown},
		}
	}

	return made, nil
}

func (b Bootstrap) node() object { return object{"id": b.Node, "cluster": Name} }

// json writes an address as Envoy's bootstrap has it.
func (s spot) json() object {
	if s.path != "" {
		return object{"pipe": object{"path": s.path}}
	}

	return object{"socket_address": object{"address": s.ip, "port_value": s.port}}
}

// target writes an address as gRPC dials it.
func (s spot) target() string {
	if s.path != "" {
		return "unix:" + s.path
	}

	return net.JoinHostPort(s.ip, strconv.FormatUint(uint64(s.port), 10))
}

func encode(made object) (json.RawMessage, error) {
	text, err := json.Marshal(made)
	if err != nil {
		return nil, fmt.Errorf("print bootstrap: %w", err)
	}

	return text, nil
}
