package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Exit codes, besides 0.
const (
	// exitBroken means that a promise is broken.
	exitBroken = 1
	// exitFailure means that the bench itself could not do its work.
	exitFailure = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func execute(ctx context.Context, arguments []string) int {
	if len(arguments) > 0 {
		if run, ok := children[arguments[0]]; ok {
			if err := run(ctx, arguments[1:], os.Stdin, os.Stdout); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, err)

				return exitFailure
			}

			return 0
		}
	}
	options, err := parse(arguments, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	broken := 0
	if err == nil {
		broken, err = conduct(ctx, options, os.Stdout, os.Stderr)
	}
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(os.Stderr, "bench: %v\n", err)

		return exitFailure
	case broken > 0:
		return exitBroken
	default:
		return 0
	}
}

// conduct runs the bench, writes what was asked for and returns how many promises are broken.
func conduct(ctx context.Context, o *options, out, progress io.Writer) (broken int, err error) {
	folder, err := os.MkdirTemp("", "pilotlight-bench-")
	if err != nil {
		return 0, fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	b := &bench{
		site:    &site{folder: folder, pilotlight: o.pilotlight, tools: o.tools},
		machine: thisMachine(), cases: o.cases, rounds: o.rounds, scale: o.scale,
		say: func(format string, arguments ...any) { _, _ = fmt.Fprintf(progress, format, arguments...) },
	}
	var infos []armInfo
	b.arms, infos = present(ctx, o.arms, b.site, b.say)
	for _, info := range infos {
		// Other proxies may be missing. Without Pilotlight every promise would pass unmeasured.
		if info.Name == pilotlightArm && info.Missing != "" {
			return 0, fmt.Errorf("%s: %s", info.Name, info.Missing)
		}
	}
	if len(b.arms) == 0 {
		return 0, errors.New("expected an arm to measure, got none")
	}
	var on []string
	if slices.ContainsFunc(b.arms, func(a arm) bool { return a.name == pilotlightArm }) {
		if b.site.pilotlight, err = install(o.pilotlight, folder); err != nil {
			return 0, err
		}
		values, err := effective(ctx, b.site, pilotlightConfig(nowhere(folder)))
		if err != nil {
			return 0, err
		}
		on = layers(values)
	}
	if err := b.run(ctx); err != nil {
		return 0, err
	}
	r := newReport(b, infos, on, o.command)
	if err := r.write(o, out); err != nil {
		return 0, err
	}
	for _, what := range r.Broken {
		_, _ = fmt.Fprintf(progress, "BROKEN  %s\n", what)
	}

	return len(r.Broken), nil
}

// present returns the arms that are there, and what is to be said of all of them.
func present(ctx context.Context, wanted []arm, s *site, say func(string, ...any)) (there []arm, infos []armInfo) {
	for _, a := range wanted {
		info := armInfo{Name: a.name, What: a.what}
		if a.find != nil {
			version, err := a.find(ctx, s)
			if info.Version = version; err != nil {
				info.Missing = err.Error()
				say("%s is missing: %v\n", a.name, err)
			}
		}
		if infos = append(infos, info); info.Missing == "" {
			there = append(there, a)
		}
	}

	return there, infos
}

// write prints the page, and writes the files that were asked for.
func (r *report) write(o *options, out io.Writer) error {
	page := r.markdown()
	if _, err := io.WriteString(out, page); err != nil {
		return fmt.Errorf("print the page: %w", err)
	}
	if o.markdown != "" {
		if err := os.WriteFile(o.markdown, []byte(page), 0o644); err != nil { //nolint:gosec // a page for everybody
			return fmt.Errorf("write the page: %w", err)
		}
	}
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("write the figures: %w", err)
		}
		if err := os.WriteFile(o.json, append(text, '\n'), 0o644); err != nil { //nolint:gosec // figures for everybody
			return fmt.Errorf("write the figures: %w", err)
		}
	}

	return nil
}
