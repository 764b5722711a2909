package coldstart

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Screen shows a measurement to a person: a moving line on a terminal, plain lines otherwise.
type Screen struct {
	out      io.Writer
	terminal bool

	mu      sync.Mutex
	current string
	notes   []string
	started time.Time
	stop    chan struct{}
	ended   sync.WaitGroup
}

// spinner are the frames of the moving line.
var spinner = []string{"▱▱▱▱▱", "▰▱▱▱▱", "▰▰▱▱▱", "▰▰▰▱▱", "▰▰▰▰▱", "▰▰▰▰▰"}

// NewScreen returns a Screen that writes to out; it moves only when out is a terminal.
func NewScreen(out io.Writer) *Screen {
	file, isFile := out.(*os.File)

	return &Screen{out: out, terminal: isFile && term.IsTerminal(int(file.Fd()))}
}

// Phase ends the phase before and begins one.
func (s *Screen) Phase(name string) {
	s.End()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.started, s.notes = name, time.Now(), nil
	if !s.terminal {
		s.printf("%s ...\n", name)

		return
	}
	s.stop = make(chan struct{})
	s.ended.Go(func() { s.animate(s.stop) })
}

// Note adds what happened within the phase.
func (s *Screen) Note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		s.notes = append(s.notes, text)
	} else {
		s.printf("  %s\n", text)
	}
}

// Result is a note that ends the phase.
func (s *Screen) Result(text string) {
	s.Note(text)
	s.End()
}

// End ends the present phase, if any.
func (s *Screen) End() {
	s.mu.Lock()
	stop := s.stop
	s.stop = nil
	s.mu.Unlock()
	if stop == nil {
		return
	}
	close(stop)
	s.ended.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printf("\r\x1b[2K✓ %s\n", s.line())
}

// arms are the arms in the order in which they are shown.
var arms = []string{"direct", "server_ready", "pilotlight"}

// Table prints the arms side by side.
func (s *Screen) Table(report Report) {
	s.End()
	rows := []struct {
		label string
		cell  func(arm ArmReport) string
	}{
		{"ready after", func(arm ArmReport) string { return fmt.Sprintf("%.2f s", arm.ReadyS) }},
		{"requests", func(arm ArmReport) string { return strconv.Itoa(arm.Requests) }},
		{"answers right", func(arm ArmReport) string { return strconv.Itoa(arm.Correct) }},
		{"failed", func(arm ArmReport) string { return strconv.Itoa(arm.Failed) }},
		{"slow after ready", func(arm ArmReport) string { return strconv.Itoa(arm.SlowAfterReady) }},
		{"  without the floor, of these surely warm", func(arm ArmReport) string { return fmt.Sprintf("%d, %d", arm.WithoutFloor, arm.SurelyWarm) }},
		{"first of a shape / steady", func(arm ArmReport) string { return fmt.Sprintf("%.1f x", arm.FirstOverSteady) }},
		{"slowest after ready", func(arm ArmReport) string { return fmt.Sprintf("%.3f s", arm.SlowestAfterReadyS) }},
		{"slowest", func(arm ArmReport) string { return fmt.Sprintf("%.3f s", arm.SlowestS) }},
		{"warm p50", func(arm ArmReport) string { return span(arm.Steady, func(l LevelReport) float64 { return l.P50MS }) }},
		{"warm p99", func(arm ArmReport) string { return span(arm.Steady, func(l LevelReport) float64 { return l.P99MS }) }},
		{"held", func(arm ArmReport) string { return strconv.Itoa(arm.Held) }},
		{"longest hold", func(arm ArmReport) string { return fmt.Sprintf("%.2f s", arm.HoldMaxS) }},
		{"extra seconds not ready", func(arm ArmReport) string { return optional(arm.ExtraNotReadyS, "%.2f s") }},
		{"added p50 per request", func(arm ArmReport) string { return optional(arm.AddedP50US, "%.0f us") }},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printf("\n%-42s", "")
	for _, arm := range arms {
		s.printf("%14s", arm)
	}
	s.printf("\n")
	for _, row := range rows {
		s.printf("%-42s", row.label)
		for _, arm := range arms {
			s.printf("%14s", row.cell(report.Arms[arm]))
		}
		s.printf("\n")
	}
	s.printf("\ncold: %s\nslow: %s\n", report.Coldness, report.SlowIs)
	s.printf("\n%s\n\n", report.Verdict())
}

func (s *Screen) animate(stop <-chan struct{}) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for frame := 0; ; frame++ {
		s.mu.Lock()
		s.printf("\r\x1b[2K%s %s", spinner[frame%len(spinner)], s.line())
		s.mu.Unlock()
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
	}
}

// line is the present phase on one line. The caller holds mu.
func (s *Screen) line() string {
	line := fmt.Sprintf("%s  %.1f s", s.current, time.Since(s.started).Seconds())
	if len(s.notes) > 0 {
		line += "  " + strings.Join(s.notes, "; ")
	}

	return line
}

// printf writes to the screen; a screen that is gone is no reason to end a measurement.
func (s *Screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// span is the least and the greatest of a figure over all shapes.
func span(steady map[string]LevelReport, figure func(LevelReport) float64) string {
	if len(steady) == 0 {
		return "-"
	}
	var values []float64
	for _, level := range steady {
		values = append(values, figure(level))
	}

	return fmt.Sprintf("%.1f-%.1f ms", slices.Min(values), slices.Max(values))
}

func optional(value *float64, format string) string {
	if value == nil {
		return "-"
	}

	return fmt.Sprintf(format, *value)
}
