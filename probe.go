package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// probeCmd is a probe for the kubelet's exec: one line of reason, exit code 0 or 1.
type probeCmd struct {
	Config  string `env:"PILOTLIGHT_CONFIG" help:"The configuration file that says where Pilotlight listens; without one, :9001." placeholder:"FILE" short:"c"`
	Health  string `help:"Where probes are answered, in place of listen.health." placeholder:"ADDRESS"`
	Ready   bool   `help:"Ask whether it is ready; this is the default." xor:"what"`
	Live    bool   `help:"Ask whether it is alive." xor:"what"`
	Startup bool   `help:"Ask whether it has started." xor:"what"`
	Model   string `help:"Ask whether this model is ready." placeholder:"NAME" xor:"what"`
}

// Run asks once.
func (c *probeCmd) Run(ctx context.Context, std *stdio) error {
	at, err := neighbour(std, c.Config, overrides("--health", "listen.health", c.Health))
	if err != nil {
		return err
	}
	status, line, err := call(ctx, http.MethodGet, at.Listen.Health, c.path(), "")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return errors.New(line)
	}
	_, err = fmt.Fprintln(std.out, line)

	return err
}

func (c *probeCmd) path() string {
	switch {
	case c.Live:
		return "/livez"
	case c.Startup:
		return "/startupz"
	case c.Model != "":
		return "/readyz?model=" + strings.ReplaceAll(url.QueryEscape(c.Model), "+", "%20")
	default:
		return "/readyz"
	}
}
