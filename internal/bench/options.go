package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// options are what the command line says.
type options struct {
	rounds     int
	scale      float64
	quick      bool
	arms       []arm
	cases      []benchCase
	json       string
	markdown   string
	pilotlight string
	tools      string
	// command is the command line without what says only where things are.
	command string
}

// parse reads the command line.
func parse(arguments []string, complain io.Writer) (*options, error) {
	o := &options{command: "go run ./internal/bench"}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(complain)
	flags.IntVar(&o.rounds, "rounds", 7, "measure every arm `N` times")
	flags.Float64Var(&o.scale, "scale", 1, "measure `X` times as long")
	flags.BoolVar(&o.quick, "quick", false, "three short rounds, to try: -rounds 3 -scale 0.25")
	arms := flags.String("arms", "", "only these `NAMES`, separated by commas: "+strings.Join(armNames(), " "))
	cases := flags.String("cases", "", "only these `NAMES`, separated by commas: "+strings.Join(caseNames(), " "))
	flags.StringVar(&o.json, "json", "", "write all figures to `FILE`")
	flags.StringVar(&o.markdown, "o", "", "write the page to `FILE`")
	flags.StringVar(&o.pilotlight, "pilotlight", "bin/pilotlight", "the `PROGRAM` that is measured")
	flags.StringVar(&o.tools, "tools", ".cache/bench", "the `FOLDER` where install.sh has put other proxies")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("expected only flags, got %q", flags.Args())
	}
	set := map[string]bool{}
	flags.Visit(func(f *flag.Flag) {
		set[f.Name] = true
		if slices.Contains([]string{"rounds", "scale", "arms", "cases"}, f.Name) {
			o.command += fmt.Sprintf(" -%s %s", f.Name, f.Value)
		}
	})
	if o.quick {
		o.command += " -quick"
		if !set["rounds"] {
			o.rounds = 3
		}
		if !set["scale"] {
			o.scale = 0.25
		}
	}
	if o.rounds < 1 || o.rounds > 100 || o.scale <= 0 || o.scale > 100 {
		return nil, fmt.Errorf("expected -rounds from 1 to 100 and -scale above 0, at most 100, got %d and %g", o.rounds, o.scale)
	}
	var err, err2 error
	o.arms, err = chosen("arm", *arms, allArms, func(a arm) string { return a.name })
	o.cases, err2 = chosen("case", *cases, allCases, func(c benchCase) string { return c.name })

	return o, errors.Join(err, err2)
}

// chosen returns the elements that list names, in their own order; all for an empty list.
func chosen[T any](what, list string, all []T, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	wanted := strings.Split(list, ",")
	var found []T
	for _, element := range all {
		if i := slices.Index(wanted, name(element)); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			found = append(found, element)
		}
	}
	if len(wanted) > 0 {
		names := make([]string, 0, len(all))
		for _, element := range all {
			names = append(names, name(element))
		}

		return nil, fmt.Errorf("no such %s: expected some of %s, got %s", what, strings.Join(names, " "), strings.Join(wanted, ","))
	}

	return found, nil
}

func armNames() []string {
	names := make([]string, 0, len(allArms))
	for _, a := range allArms {
		names = append(names, a.name)
	}

	return names
}

func caseNames() []string {
	names := make([]string, 0, len(allCases))
	for _, c := range allCases {
		names = append(names, c.name)
	}

	return names
}
