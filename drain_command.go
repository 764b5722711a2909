package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/status"
)

// drainCmd begins the drain of the Pilotlight of this pod, as its preStop hook does: images without a shell have no curl.
type drainCmd struct{ Config, Admin string }

func (c *drainCmd) Command() *cobra.Command {
	command := &cobra.Command{Use: "drain", Short: "Let the Pilotlight of this pod begin to drain, as a preStop hook does."}
	flags := command.Flags()
	configFlag(flags, &c.Config, "The configuration `FILE` that says where Pilotlight listens; without one, localhost:9002.")
	flags.StringVar(&c.Admin, "admin", "", "The `ADDRESS` where Pilotlight takes orders, in place of listen.admin.")

	return command
}

// Run begins the drain and does not wait for its end.
func (c *drainCmd) Run(ctx context.Context, std *stdio) error {
	at, err := neighbour(std, c.Config, overrides("--admin", "listen.admin", c.Admin))
	if err != nil {
		return err
	}
	token, err := status.ReadToken(at.Listen.AdminTokenFile.Value)
	if err != nil {
		return err
	}
	code, line, err := call(ctx, http.MethodPost, at.Listen.Admin, "/drain", token)
	if err != nil {
		return err
	}
	if code != http.StatusAccepted {
		return fmt.Errorf("drain: status %d: %s", code, line)
	}
	_, err = fmt.Fprintln(std.out, "draining")

	return err
}

// overrides is one flag that takes the place of a key, if it is given.
func overrides(flag, path, text string) []config.Override {
	if text == "" {
		return nil
	}

	return []config.Override{{Flag: flag, Path: path, Text: text}}
}
