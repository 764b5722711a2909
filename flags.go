package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// configFlag is --config, which the environment may set as well.
func configFlag(flags *pflag.FlagSet, to *string, help string) {
	const variable = "PILOTLIGHT_CONFIG"
	flags.StringVarP(to, "config", "c", "", help+" ($"+variable+")")
	if path := os.Getenv(variable); path != "" {
		_ = flags.Set("config", path) // given, as far as require knows; any text will do
	}
}

// require makes a flag one that must be given.
func require(command *cobra.Command, flag string) {
	_ = command.MarkFlagRequired(flag) // fails only for a flag that is not there, which the first test of the command shows
}

// choice is text that must be one of a few words.
type choice struct {
	to *string
	of []string
}

// oneOf is the choice among words that to holds. What to holds already is the default.
func oneOf(to *string, words ...string) choice { return choice{to: to, of: words} }

// String returns the word that is chosen.
func (c choice) String() string { return *c.to }

// Set chooses.
func (c choice) Set(word string) error {
	if !slices.Contains(c.of, word) {
		return fmt.Errorf("expected one of %s, got %q", strings.Join(c.of, ", "), word)
	}
	*c.to = word

	return nil
}

// Type is how the words stand in help.
func (c choice) Type() string { return strings.Join(c.of, "|") }
