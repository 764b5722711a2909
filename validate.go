package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// validateCmd checks a configuration and prints what is in force with it. It exits 2 when the configuration is refused.
type validateCmd struct {
	// Config has no default: who validates knows what.
	Config string
	// Strict is for pipelines.
	Strict bool
}

func (c *validateCmd) Command() *cobra.Command {
	command := &cobra.Command{Use: "validate", Short: `Check a configuration and print it with every "auto" resolved.`}
	flags := command.Flags()
	configFlag(flags, &c.Config, "The configuration `FILE`.")
	require(command, "config")
	flags.BoolVar(&c.Strict, "strict", false, "Refuse what is only strange, such as limits that contradict each other.")

	return command
}

// Run prints the effective configuration to the standard output, warnings to the standard error stream.
func (c *validateCmd) Run(_ context.Context, io *stdio) error {
	return config.Validate(io.out, io.err, config.Source{Path: c.Config, Env: io.env, Strict: c.Strict, Check: checkPlan}, io.resolver())
}

// checkPlan has the last word on a configuration whose values are all right by themselves.
func checkPlan(c *config.Config) error {
	plan, err := warmup.NewPlan(c.Warmup.Steps)
	if err != nil || c.Backend.Type == config.TypeAuto {
		return err
	}

	return plan.Fits(c.Backend.Type.String())
}
