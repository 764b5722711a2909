package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight-proxy/pilotlight/internal/config"
	"github.com/pilotlight-proxy/pilotlight/internal/units"
	"github.com/pilotlight-proxy/pilotlight/warmup"
	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
)

// warmCmd runs the plan once, shows what it does, and fails when the backend is not warm at the end.
type warmCmd struct {
	Config, Backend, Only string
	JSON, Strict          bool
}

func (c *warmCmd) Command() *cobra.Command {
	command := &cobra.Command{Use: "now", Short: "Warm a backend once, show the progress, and say how it went."}
	flags := command.Flags()
	configFlag(flags, &c.Config, "The configuration `FILE`; without one, --backend says enough.")
	flags.StringVar(&c.Backend, "backend", "", "The backend's `ADDRESS`: host:port, http://host:port/base or unix:/path.")
	flags.StringVar(&c.Only, "only", "", "Run only the steps of the name or kind `STEP`, whatever they need. --only prefetch needs no backend: for an init container.")
	flags.BoolVar(&c.JSON, "json", false, "Print the report as JSON to the standard output.")
	flags.BoolVar(&c.Strict, "strict", false, "Refuse a configuration that is only strange, such as limits that contradict each other.")

	return command
}

// refreshEvery is how often progress is looked at between two events.
const refreshEvery = time.Second

// mostFiles is how many files of a prefetch are written one by one.
const mostFiles = 40

// Run warms, with progress on the standard error stream and the report on the standard output.
func (c *warmCmd) Run(ctx context.Context, std *stdio) error {
	run := runCmd{Config: c.Config, Backend: c.Backend, Strict: c.Strict}
	loaded, _, err := config.Load(run.source(std))
	if err != nil {
		return err
	}
	if c.Only != "" {
		if loaded.Warmup.Steps, err = only(c.Only, loaded.Warmup.Steps); err != nil {
			return err
		}
	}
	if loaded.Backend.Embedded() && c.Only != warmup.KindPrefetch.String() {
		return errors.New("warm: an embedded backend lives only inside \"run\", so there is nothing to warm from outside")
	}
	screen := &warmScreen{out: std.err, shown: map[string]warmup.ShapeState{}}
	backendTLS, err := loaded.Backend.TLS.Load()
	if err != nil {
		return err
	}
	resolved := std.resolver().Resolve(loaded)
	resolved.Warmup.Record = units.Of("") // that of the sidecar is not ours, and whoever asks by hand wants to see it warmed
	_, runner, err := newWarmup(resolved, loaded.Backend.Address(), backendTLS, warmup.Settings{Progress: screen.event})
	if err != nil {
		return err
	}
	screen.report = runner.Report
	ending, end := context.WithCancel(ctx)
	var showing sync.WaitGroup
	showing.Go(func() { screen.refresh(ending) })
	runner.Prepare(ctx)
	report, err := runner.Run(ctx)
	end()
	showing.Wait()
	screen.shapes()
	if err == nil {
		err = notWarm(loaded, report)
	}
	if c.JSON {
		encoder := json.NewEncoder(std.out)
		encoder.SetIndent("", "  ")
		err = errors.Join(err, encoder.Encode(report))
	} else if err == nil {
		_, _ = fmt.Fprintf(std.out, "warm: %s\n", warmedBy(report))
	}
	if err != nil {
		return fmt.Errorf("not warm: %w", err)
	}

	return nil
}

// only returns the steps of that name or kind, without what they need.
func only(which string, steps []warmup.StepConfig) ([]warmup.StepConfig, error) {
	var chosen []warmup.StepConfig
	names := make([]string, 0, len(steps))
	for _, step := range steps {
		if names = append(names, step.Name); step.Name == which || step.Kind().String() == which {
			step.Needs = nil
			chosen = append(chosen, step)
		}
	}
	if chosen == nil {
		return nil, fmt.Errorf("warm: no step has the name or kind %q; there are %s", which, cmp.Or(strings.Join(names, ", "), "none in the configuration"))
	}

	return chosen, nil
}

// warmedBy says in one line what was done: what was asked of the backend and what was read, if any.
func warmedBy(report warmup.Report) string {
	var did []string
	for _, step := range report.Steps {
		if step.Pages != nil {
			did = append(did, step.Pages.String())
		}
	}
	if report.ServerType != "" || did == nil {
		did = append(did, fmt.Sprintf("%s, %d requests", report.ServerType, report.Requests))
	}

	return strings.Join(did, "; ") + fmt.Sprintf(" in %v", report.Ended.Sub(report.Started).Round(time.Millisecond))
}

// notWarm says which required models are not warm although nothing failed. An optional step that failed is no reason, since somebody called it optional.
func notWarm(c *config.Config, report warmup.Report) error {
	var problems []error
	for _, model := range report.Models {
		optional := !slices.ContainsFunc(model.Reasons, func(r warmup.Reason) bool { return r != warmup.ReasonOptionalFailed })
		if model.Outcome == warmup.Warm || !required(c, model.Name) || (model.Outcome == warmup.Degraded && optional) {
			continue
		}
		reasons := make([]string, 0, len(model.Reasons))
		for _, reason := range model.Reasons {
			reasons = append(reasons, reason.String())
		}
		problems = append(problems, fmt.Errorf("model %s: %s: %s", model.Name, strings.Join(reasons, ", "), model.Text))
	}

	return errors.Join(problems...)
}

// warmScreen writes what happens, a line for each thing: it serves a terminal and a log alike.
type warmScreen struct {
	out    io.Writer
	report func() warmup.Report

	mu    sync.Mutex
	shown map[string]warmup.ShapeState
	last  string
}

// event writes what a run tells by itself.
func (s *warmScreen) event(event warmup.Event) {
	switch event.Kind {
	case warmup.StepStarted:
		s.linef("step %s", event.Step)
	case warmup.StepEnded:
		if event.Error != nil {
			s.linef("step %s failed: %s", event.Step, strings.ReplaceAll(event.Error.Error(), "\n", "; "))
		} else {
			s.linef("step %s done", event.Step)
		}
		if event.Pages != nil {
			s.files(*event.Pages)
		}
	case warmup.Prefetching:
		s.linef("  %v", event.Pages)
	case warmup.BackendUp:
		s.linef("the backend answers")
	case warmup.Waiting:
		if event.Error != nil {
			s.linef("waiting: %v", event.Error)
		}
	case warmup.ModelsFound:
		s.linef("models: %s", strings.Join(event.Models, ", "))
	case warmup.PutOff, warmup.BackgroundEnded: // whoever asks for it by hand wants it now, and all of it
	case warmup.ModelEnded:
		s.linef("model %s: %v", event.Model.Name, event.Model.Outcome)
	}
}

// files writes what has come of each file, of the first ones.
func (s *warmScreen) files(report pages.Report) {
	for _, problem := range report.Problems {
		s.linef("  %s", problem)
	}
	for i, file := range report.Files {
		if i == mostFiles {
			s.linef("  and %d more files", len(report.Files)-mostFiles)

			break
		}
		share := "unknown"
		if file.Resident != nil {
			share = fmt.Sprintf("%.1f %%", 100**file.Resident)
		}
		s.linef("  %s", strings.TrimSuffix(fmt.Sprintf("%s (%v): resident %s; %s", file.Path, file.Format, share, file.Note), "; "))
	}
}

// refresh writes how far the shapes are until ctx ends.
func (s *warmScreen) refresh(ctx context.Context) {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.shapes()
		case <-ctx.Done():
			return
		}
	}
}

// shapes writes each shape whose state has changed, and how long the rest will take.
func (s *warmScreen) shapes() {
	report := s.report()
	settled := 0
	for _, shape := range report.Shapes {
		key := shape.Step + " " + shape.Model + " " + shape.Shape()
		waits := shape.State == warmup.ShapeWaiting || shape.State == warmup.ShapeWarming
		if !waits {
			settled++
		}
		s.mu.Lock()
		changed := s.shown[key] != shape.State && !waits
		s.shown[key] = shape.State
		s.mu.Unlock()
		if changed {
			s.linef("  %s", strings.TrimSuffix(fmt.Sprintf("%v %s", shape, shape.Text), " "))
		}
	}
	if report.Running && len(report.Shapes) > 0 {
		left := ""
		if report.Remaining > 0 {
			left = fmt.Sprintf(", about %v left", report.Remaining.Round(100*time.Millisecond))
		}
		s.linef("  %d of %d shapes through, %d requests%s", settled, len(report.Shapes), report.Requests, left)
	}
}

// linef writes one line, unless it is the same as the one before.
func (s *warmScreen) linef(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != s.last {
		s.last = text
		_, _ = fmt.Fprintln(s.out, text)
	}
}
