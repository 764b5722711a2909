package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/warmup"
)

// warmImportCmd writes the plan to the standard output, and the requests that had to be made to a file that it names.
type warmImportCmd struct {
	// Files are each a config.pbtxt with model_warmup, in the model's folder, a tf_serving_warmup_requests, or a file of JSON lines, which is named as it is.
	Files []string
	Out   string
}

func (c *warmImportCmd) Command() *cobra.Command {
	command := &cobra.Command{
		Use:   "import FILE...",
		Short: "Turn what warms a server by its own means into a plan: a Triton model's config.pbtxt, TensorFlow Serving's tf_serving_warmup_requests, or JSON lines.",
		Long: "Turn what warms a server by its own means into a plan.\n\n" +
			"Each FILE is a config.pbtxt with model_warmup, in the model's folder, a tf_serving_warmup_requests, or a file of JSON lines, which is named as it is.",
		Args: func(_ *cobra.Command, arguments []string) error {
			if c.Files = arguments; len(arguments) == 0 {
				return errors.New("expected at least one FILE")
			}

			return nil
		},
	}
	command.Flags().StringVarP(&c.Out, "out", "o", "warmup.jsonl", "The `FILE` for requests that had to be made. It must not exist yet.")

	return command
}

// tfServingFile is what TensorFlow Serving calls its file, and the only thing to know it by.
const tfServingFile = "tf_serving_warmup_requests"

// importedStep is a step of the plan with nothing in it but what it says.
type importedStep struct {
	Name   string               `yaml:"name"`
	Needs  []string             `yaml:"needs,omitempty,flow"`
	Wait   *struct{}            `yaml:"wait,omitempty,flow"`
	Replay *warmup.ReplayConfig `yaml:"replay,omitempty"`
}

// Run imports.
func (c *warmImportCmd) Run(_ context.Context, std *stdio) error {
	var replayed, imported []string
	for _, path := range c.Files {
		switch {
		case filepath.Ext(path) == ".pbtxt", filepath.Base(path) == tfServingFile:
			imported = append(imported, path)
		case filepath.Ext(path) == ".jsonl", filepath.Ext(path) == ".ndjson":
			replayed = append(replayed, path)
		default:
			return fmt.Errorf("import %s: expected a config.pbtxt, a %s or a file of JSON lines (.jsonl, .ndjson)", path, tfServingFile)
		}
	}
	if len(imported) > 0 {
		count, err := c.write(imported)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(std.err, "wrote %d requests to %s\n", count, c.Out)
		replayed = append([]string{c.Out}, replayed...)
	}
	plan := map[string]any{"warmup": map[string][]importedStep{"steps": {
		{Name: "backend", Wait: &struct{}{}},
		{Name: "imported", Needs: []string{"backend"}, Replay: &warmup.ReplayConfig{Files: replayed}},
	}}}
	text, err := yaml.Marshal(plan)
	if err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	_, err = std.out.Write(text)

	return err
}

// write makes the requests of configurations; what is left of a failure is no file.
func (c *warmImportCmd) write(configs []string) (count int, err error) {
	file, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // requests of a repository anybody may read
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	for _, path := range configs {
		read := warmup.ImportTriton
		if filepath.Base(path) == tfServingFile {
			read = warmup.ImportTFServing
		}
		n, failed := read(file, path)
		count += n
		err = errors.Join(err, failed)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(c.Out))
	}

	return count, err
}
