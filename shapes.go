package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// shapesExportCmd prints a plan.
type shapesExportCmd struct {
	Config string
	// File has the shapes, instead of the one that the configuration names.
	File string
}

func (c *shapesExportCmd) Command() *cobra.Command {
	command := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Print the recorded shapes as steps of a plan, with their shares.",
		Long:  "Print the recorded shapes as steps of a plan, with their shares.\n\nFILE has the shapes, instead of the one that the configuration names.",
		Args: func(_ *cobra.Command, arguments []string) error {
			if len(arguments) > 1 {
				return fmt.Errorf("expected at most one FILE, got %d", len(arguments))
			}
			c.File = strings.Join(arguments, "")

			return nil
		},
	}
	configFlag(command.Flags(), &c.Config, "The configuration `FILE`, which has warmup.record_shapes.")

	return command
}

// Run prints it to the standard output.
func (c *shapesExportCmd) Run(_ context.Context, std *stdio) error {
	serverType := config.TypeAuto
	record := warmup.DefaultConfig().RecordShapes
	if c.File == "" {
		loaded, err := neighbour(std, c.Config, nil)
		if err != nil {
			return err
		}
		record = loaded.Warmup.RecordShapes
		serverType = loaded.Backend.Type
	}
	file := cmp.Or(c.File, record.File)
	if file == "" {
		return errors.New("export shapes: none are recorded, expected warmup.record_shapes.file in the configuration, or a file by name")
	}
	shapes, err := warmup.ReadRecordedShapes(file, record.MinShare)
	if err != nil {
		return err
	}
	if serverType != config.TypeAuto { // a path that users try may look like that of another one
		shapes = slices.DeleteFunc(shapes, func(s warmup.RecordedShape) bool { return s.Fits(serverType.String()) != nil })
	}
	if len(shapes) == 0 {
		return fmt.Errorf("export shapes: %s has none that the server type takes with a share of at least %g", file, record.MinShare)
	}
	_, err = fmt.Fprint(std.out, planOf(shapes))

	return err
}

// planOf writes steps of a plan by hand, since the encoder knows no comments.
func planOf(shapes []warmup.RecordedShape) string {
	var plan strings.Builder
	plan.WriteString("warmup:\n  steps:\n  - {name: backend, wait: {}}\n")
	for i, shape := range shapes {
		_, _ = fmt.Fprintf(&plan, "  # %.1f %% of the requests\n  - {name: recorded-%d, needs: [backend], %s}\n", 100*shape.Share, i+1, suggestion(shape.LiveShape))
	}

	return plan.String()
}
