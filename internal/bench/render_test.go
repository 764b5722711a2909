package main

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func somewhere() place {
	return place{
		folder: "/f", origin: addresses{"127.0.0.1:11", "127.0.0.1:12"}, at: addresses{"127.0.0.1:21", "127.0.0.1:22"},
		health: "127.0.0.1:31", admin: "127.0.0.1:32",
	}
}

func TestConfigurationsNameTheirAddresses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nginx", nginxConfig(somewhere()), []string{
			"worker_processes 2;", "access_log off;", "upstream plain { server 127.0.0.1:11; keepalive 512;", "upstream grpc { server 127.0.0.1:12; keepalive 512;",
			"listen 127.0.0.1:21;", "listen 127.0.0.1:22 http2;", "proxy_buffering off;", "client_body_temp_path /f/client_body;", "pid /f/nginx.pid;",
		}},
		{"haproxy", haproxyConfig(somewhere()), []string{"nbthread 2", "bind 127.0.0.1:21\n", "server origin 127.0.0.1:11\n", "bind 127.0.0.1:22 proto h2", "server origin 127.0.0.1:12 proto h2"}},
		{"envoy", envoyConfig(somewhere()), []string{
			"address: {socket_address: {address: 127.0.0.1, port_value: 21}}", "{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 11}}}}",
			"{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 12}}}}", "timeout: 0s",
		}},
		{"pilotlight", pilotlightConfig(somewhere(), telemetryOn(somewhere())), []string{
			`http: "127.0.0.1:11", grpc: "127.0.0.1:12"`, `data: "127.0.0.1:21", health: "127.0.0.1:31", admin: "127.0.0.1:32"`, "sample: 0.01",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, want := range test.want {
				if !strings.Contains(test.text, want) {
					t.Errorf("expected %q in\n%s", want, test.text)
				}
			}
			if strings.Contains(test.text, "%!") {
				t.Errorf("a verb has no value in\n%s", test.text)
			}
		})
	}
}

func TestOnlyRootNamesAUser(t *testing.T) {
	t.Parallel()
	p := somewhere()
	if strings.Contains(nginxConfig(p), "user root;") {
		t.Error("nginx warns of a user when it is not root")
	}
	p.root = true
	if !strings.Contains(nginxConfig(p), "user root;") {
		t.Error("nginx's workers could not write into a folder of root's")
	}
}

func TestYAMLIsYAML(t *testing.T) {
	t.Parallel()
	for _, text := range []string{envoyConfig(somewhere()), pilotlightConfig(somewhere()), pilotlightConfig(somewhere(), telemetryOn(somewhere()))} {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(text), &values); err != nil || len(values) == 0 {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}

func TestLayersSayWhatIsNotThere(t *testing.T) {
	t.Parallel()
	got := strings.Join(layers(map[string]any{"telemetry": map[string]any{"server_timing": true}, "circuit": map[string]any{"failure_rate": 0.5}}), "\n")
	for _, want := range []string{"Server-Timing header: `telemetry.server_timing: true`", "`circuit.failure_rate: 0.5`", "traces: this build has no `telemetry.traces`"} {
		if !strings.Contains(got, want) {
			t.Errorf("expected %q in\n%s", want, got)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"nginx version: nginx/1.22.1":                                                                          "1.22.1",
		"HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/":                                   "2.6.12-1+deb12u4",
		".cache/bench/envoy  version: 9e5580933739775e8bce696a57a2e1bc99368f23/1.40.0/Clean/RELEASE/BoringSSL": "1.40.0",
		"no idea": "no idea",
	} {
		if got := version(line); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}
