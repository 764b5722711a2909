package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// probeCmd is a probe for the kubelet's exec: one line of reason, exit code 0 or 1.
type probeCmd struct {
	Config, Health       string
	Ready, Live, Startup bool
	Model                string
}

func (c *probeCmd) Command() *cobra.Command {
	command := &cobra.Command{Use: "probe", Short: "Ask the Pilotlight of this pod how it is, as an exec probe does: one line, exit code 0 or 1."}
	flags := command.Flags()
	configFlag(flags, &c.Config, "The configuration `FILE` that says where Pilotlight listens; without one, :9001.")
	flags.StringVar(&c.Health, "health", "", "The `ADDRESS` where probes are answered, in place of listen.health.")
	flags.BoolVar(&c.Ready, "ready", false, "Ask whether it is ready; this is the default.")
	flags.BoolVar(&c.Live, "live", false, "Ask whether it is alive.")
	flags.BoolVar(&c.Startup, "startup", false, "Ask whether it has started.")
	flags.StringVar(&c.Model, "model", "", "Ask whether the model of this `NAME` is ready.")
	command.MarkFlagsMutuallyExclusive("ready", "live", "startup", "model")

	return command
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
