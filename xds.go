package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/health"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/xds"
)

// xdsSnapshotCmd prints resources.
type xdsSnapshotCmd struct {
	Config string
	State  health.State
	Format string
}

func (c *xdsSnapshotCmd) Command() *cobra.Command {
	command := &cobra.Command{Use: "snapshot", Short: "Print the resources that would be served."}
	flags := command.Flags()
	configFlag(flags, &c.Config, "The configuration `FILE`; without one, the defaults.")
	flags.TextVar(&c.State, "state", health.Ready, "The `STATE` of the pod: starting, idle, warming, ready, degraded, unhealthy, cold, draining or stopped.")
	c.Format = "yaml"
	flags.Var(oneOf(&c.Format, "yaml", "json"), "format", "yaml or json.")

	return command
}

// Run prints them to the standard output.
func (c *xdsSnapshotCmd) Run(_ context.Context, std *stdio) error {
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
	For, Config, Node string
	Admin             units.Listen
	Delta             bool
	CA, Cert, Key     string
}

func (c *xdsBootstrapCmd) Command() *cobra.Command {
	client := oneOf(&c.For, "envoy", "grpc")
	command := &cobra.Command{Use: "bootstrap " + client.Type(), Short: "Print what a client in the same pod must be started with."}
	command.Args = func(_ *cobra.Command, arguments []string) error { return client.Set(strings.Join(arguments, " ")) }
	flags := command.Flags()
	configFlag(flags, &c.Config, "The configuration `FILE`, which has xds.serve.")
	flags.StringVar(&c.Node, "node", "pilotlight", "What the client calls itself, its `ID`.")
	flags.TextVar(&c.Admin, "admin", units.Listen{Network: "tcp", Host: "localhost:9901"}, "The `ADDRESS` where Envoy answers questions about itself; empty: nowhere.")
	flags.BoolVar(&c.Delta, "delta", false, "Let Envoy ask for changes, not for full states.")
	flags.StringVar(&c.CA, "ca", "", "The `FILE` with the roots of xds.tls, where the client finds it.")
	flags.StringVar(&c.Cert, "cert", "", "The `FILE` with the certificate that the client shows, where xds.tls.client_ca asks for one.")
	flags.StringVar(&c.Key, "key", "", "The `FILE` with its key.")

	return command
}

// Run prints it to the standard output.
func (c *xdsBootstrapCmd) Run(_ context.Context, std *stdio) error {
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
