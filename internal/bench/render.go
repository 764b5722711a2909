package main

import (
	"fmt"
	"net"
	"strings"
)

// place is what the configuration of a proxy is made of.
type place struct {
	// folder is the proxy's own.
	folder string
	origin addresses
	at     addresses
	// health and admin are Pilotlight's other ports.
	health, admin string
	// root says that the bench runs as root.
	root bool
}

// The configurations are alike: two workers, connections to the origin kept, nothing buffered that streams, no log of requests, no total timeout.

func nginxConfig(p place) string {
	user := ""
	if p.root {
		user = "user root;\n"
	}
	var temporary strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		_, _ = fmt.Fprintf(&temporary, "  %s_temp_path %s/%s;\n", kind, p.folder, kind)
	}

	return user + fmt.Sprintf(`daemon off;
worker_processes 2;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
%[2]s  client_max_body_size 0;
  client_body_buffer_size 32k;
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
  tcp_nodelay on;
  upstream plain { server %[3]s; keepalive 512; keepalive_requests 1000000000; }
  upstream grpc { server %[4]s; keepalive 512; keepalive_requests 1000000000; }
  server {
    listen %[5]s;
    location / {
      proxy_pass http://plain;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_buffer_size 32k;
      proxy_buffers 4 32k;
      proxy_busy_buffers_size 64k;
      proxy_read_timeout 1h;
    }
  }
  server {
    listen %[6]s http2;
    location / { grpc_pass grpc://grpc; grpc_read_timeout 1h; grpc_send_timeout 1h; }
  }
}
`, p.folder, temporary.String(), p.origin.Plain, p.origin.GRPC, p.at.Plain, p.at.GRPC)
}

func haproxyConfig(p place) string {
	return fmt.Sprintf(`global
  nbthread 2
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  option http-keep-alive
  option http-no-delay
  http-reuse always
frontend plain
  bind %[1]s
  default_backend plain
backend plain
  server origin %[2]s
frontend grpc
  bind %[3]s proto h2
  default_backend grpc
backend grpc
  server origin %[4]s proto h2
`, p.at.Plain, p.origin.Plain, p.at.GRPC, p.origin.GRPC)
}

func envoyConfig(p place) string {
	const extensions = "type.googleapis.com/envoy.extensions"
	socket := func(address string) string {
		host, port, _ := net.SplitHostPort(address)

		return fmt.Sprintf("{socket_address: {address: %s, port_value: %s}}", host, port)
	}
	cluster := func(name, address, options string) string {
		return fmt.Sprintf(`  - name: %[1]s
    type: STATIC
    connect_timeout: 5s
    load_assignment: {cluster_name: %[1]s, endpoints: [{lb_endpoints: [{endpoint: {address: %[2]s}}]}]}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": %[4]s.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {%[3]s: {}}
`, name, socket(address), options, extensions)
	}

	return fmt.Sprintf(`static_resources:
  listeners:
  - name: data
    address: %[1]s
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": %[2]s.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: data
          codec_type: AUTO
          stream_idle_timeout: 0s
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - {match: {prefix: "/", grpc: {}}, route: {cluster: grpc, timeout: 0s}}
              - {match: {prefix: "/"}, route: {cluster: plain, timeout: 0s}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": %[2]s.filters.http.router.v3.Router}
  clusters:
`, socket(p.at.Plain), extensions) + cluster("plain", p.origin.Plain, "http_protocol_options") + cluster("grpc", p.origin.GRPC, "http2_protocol_options")
}

// pilotlightConfig sets no more than where everybody listens; more is lines of YAML to add.
func pilotlightConfig(p place, more ...string) string {
	return fmt.Sprintf(`version: 1
backend: {http: "%s", grpc: "%s"}
listen: {data: "%s", health: "%s", admin: "%s", admin_token_file: "%s/admin-token"}
%s`, p.origin.Plain, p.origin.GRPC, p.at.Plain, p.health, p.admin, p.folder, strings.Join(more, ""))
}

// telemetryOn traces as the default samples, and exports metrics. The origin plays the collector.
func telemetryOn(p place) string {
	return fmt.Sprintf("telemetry: {traces: {otlp: \"http://%[1]s\", sample: 0.01}, metrics: {otlp: \"http://%[1]s\"}}\n", p.origin.GRPC)
}
