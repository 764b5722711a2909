package config

import (
	"fmt"
	"io"
)

// Validate loads a configuration and prints its effective form to out and what is strange about it to errs.
// A configuration that is refused is a [*RefusalError], which knows its exit code.
func Validate(out, errs io.Writer, source Source, resolver Resolver) error {
	c, warnings, err := Load(source)
	for _, warning := range warnings {
		if _, writeErr := fmt.Fprintf(errs, "warning: %s\n", warning); writeErr != nil {
			return fmt.Errorf("print warning: %w", writeErr)
		}
	}
	if err != nil {
		return err
	}
	if resolver.Grace == 0 {
		if resolver.Grace, err = Grace(source.Env); err != nil {
			return err
		}
	}
	if err := Print(out, resolver.Resolve(c)); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}

	return nil
}
