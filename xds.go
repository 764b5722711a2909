package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/xds"
)

// xdsCmd is what to look at and to begin with when Envoy or a gRPC client is to follow us.
type xdsCmd struct {
	Snapshot  xdsSnapshotCmd  `cmd:"" help:"Print the resources that would be served."`
	Bootstrap xdsBootstrapCmd `cmd:"" help:"Print what a client in the same pod must be started with."`
}

// xdsSnapshotCmd prints resources.
type xdsSnapshotCmd struct {
	Config string       `env:"PILOTLIGHT_CONFIG" help:"The configuration file; without one, the defaults." placeholder:"FILE" short:"c"`
	State  health.State `default:"ready" help:"The state of the pod: starting, idle, warming, ready, degraded, unhealthy, cold, draining or stopped." placeholder:"STATE"`
	Format string       `default:"yaml" enum:"yaml,json" help:"yaml or json."`
}

// Run prints them to the standard output.
func (c *xdsSnapshotCmd) Run(std *stdio) error {
	loaded, err := neighbour(std, c.Config, nil)
	if err != nil {
		return err
	}
	publisher, err := newPublisher(loaded, nil, nil)
	if err != nil {
		return err
	}
	publisher.Follow(c.State)
	snapshot, err := publisher.Snapshot()
	if err != nil {
		return err
	}

	return std.show(snapshot, c.Format)
}

// xdsBootstrapCmd prints a bootstrap.
type xdsBootstrapCmd struct {
	For    string       `arg:"" enum:"envoy,grpc" help:"envoy or grpc."`
	Config string       `env:"PILOTLIGHT_CONFIG" help:"The configuration file, which has xds.serve." placeholder:"FILE" short:"c"`
	Node   string       `default:"pilotlight" help:"What the client calls itself." placeholder:"ID"`
	Admin  units.Listen `default:"localhost:9901" help:"Where Envoy answers questions about itself; empty: nowhere." placeholder:"ADDRESS"`
	Delta  bool         `help:"Let Envoy ask for changes, not for full states."`
	CA     string       `help:"The file with the roots of xds.tls, where the client finds it." name:"ca" placeholder:"FILE"`
	Cert   string       `help:"The certificate that the client shows, where xds.tls.client_ca asks for one." placeholder:"FILE"`
	Key    string       `help:"Its key." placeholder:"FILE"`
}

// Run prints it to the standard output.
func (c *xdsBootstrapCmd) Run(std *stdio) error {
	loaded, err := neighbour(std, c.Config, nil)
	if err != nil {
		return err
	}
	serve := loaded.XDS
	switch {
	case serve.Serve.IsZero():
		return errors.New("print bootstrap: xds.serve is not set, expected an address such as localhost:18000")
	case !serve.TLS.IsZero() && c.CA == "":
		return errors.New("print bootstrap: xds.tls is set, so --ca is needed, the file with the roots that the client believes")
	case serve.TLS.ClientCA != "" && (c.Cert == "" || c.Key == ""):
		return errors.New("print bootstrap: xds.tls.client_ca is set, so --cert and --key are needed, which the client shows")
	}
	bootstrap := xds.Bootstrap{
		Serve: serve.Serve, Families: xds.LocalFamilies(), Node: c.Node,
		TLS: !serve.TLS.IsZero(), CA: c.CA, Cert: c.Cert, Key: c.Key,
		Admin: c.Admin, Connections: loaded.Limits.Connections, Delta: c.Delta,
	}
	if c.For == "grpc" {
		text, err := bootstrap.GRPC()
		if err != nil {
			return err
		}

		return std.show(text, "json")
	}
	text, err := bootstrap.Envoy()
	if err != nil {
		return err
	}

	return std.show(text, "yaml")
}

// show prints JSON for people, or as YAML.
func (s *stdio) show(text json.RawMessage, format string) error {
	printed := &bytes.Buffer{}
	if format == "yaml" {
		converted, err := yaml.JSONToYAML(text)
		if err != nil {
			return fmt.Errorf("print YAML: %w", err)
		}
		printed.Write(converted)
	} else {
		if err := json.Indent(printed, text, "", "  "); err != nil {
			return fmt.Errorf("print JSON: %w", err)
		}
		printed.WriteByte('\n')
	}
	_, err := s.out.Write(printed.Bytes())

	return err
}
