package main

import (
	"context"
	_ "embed" // for the schema
	"fmt"

	"github.com/spf13/cobra"
)

// configSchema is generated from the types and comments of the configuration: "go generate ./internal/config".
//
//go:embed deploy/pilotlight.schema.json
var configSchema []byte

// schemaCmd prints the JSON schema of the configuration, for editors.
type schemaCmd struct{}

func (*schemaCmd) Command() *cobra.Command {
	return &cobra.Command{Use: "schema", Short: "Print the JSON schema of the configuration."}
}

// Run prints the schema to the standard output.
func (*schemaCmd) Run(_ context.Context, io *stdio) error {
	if _, err := io.out.Write(configSchema); err != nil {
		return fmt.Errorf("print schema: %w", err)
	}

	return nil
}
