package main

import (
	_ "embed" // for the schema
	"fmt"
)

// configSchema is generated from the types and comments of the configuration: "go generate ./internal/config".
//
//go:embed deploy/pilotlight.schema.json
var configSchema []byte

// schemaCmd prints the JSON schema of the configuration, for editors.
type schemaCmd struct{}

// Run prints the schema to the standard output.
func (*schemaCmd) Run(io *stdio) error {
	if _, err := io.out.Write(configSchema); err != nil {
		return fmt.Errorf("print schema: %w", err)
	}

	return nil
}
