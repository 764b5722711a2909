package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// shapesCmd is what to do with recorded shapes.
type shapesCmd struct {
	Export shapesExportCmd `cmd:"" help:"Print the recorded shapes as steps of a plan, with their shares."`
}

// shapesExportCmd prints a plan.
type shapesExportCmd struct {
	Config string `env:"PILOTLIGHT_CONFIG" help:"The configuration file, which has warmup.record_shapes." placeholder:"FILE" short:"c"`
	File   string `arg:"" help:"The file with the shapes, instead of the one that the configuration names." name:"file" optional:""`
}

// Run prints it to the standard output.
func (c *shapesExportCmd) Run(std *stdio) error {
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
