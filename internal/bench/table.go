package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// busy is the load of each core above which the figures of a run are not worth quoting.
const busy = 0.25

// markdown is the report as a page.
func (r *report) markdown() string {
	var page strings.Builder
	write := func(format string, arguments ...any) { _, _ = fmt.Fprintf(&page, format, arguments...) }
	write("# What the hop costs\n\n")
	write("Written by `make bench-proxy`. Everything here was measured on one machine by one run of\n\n```sh\n%s\n```\n\n", r.Command)
	write("on %d cores (%s), %s, %s. The load generator, the proxy and the origin share these cores: read the figures as ratios.\n\n", r.Machine.Cores, r.Machine.CPU, r.Machine.Kernel, r.Machine.Go)
	write("In the minute before, %.1f threads of other programs wanted to run. ", r.Machine.Load)
	if r.Machine.Load > busy*float64(r.Machine.Cores) {
		write("**That is a busy machine: the figures are spoilt, latencies above all, and the wide intervals show it.**")
	} else {
		write("That is a quiet machine.")
	}
	write("\n\n")
	write("The origin is simulated: it answers at once, from memory, with as many bytes as the request has, and streams tokens by a clock. The collector of telemetry is simulated too. The proxies are the real programs, each in a process of its own, with a keep-alive upstream, without buffering of streams and without an access log.\n\n")
	r.writeArms(write)
	r.writePromises(write)
	r.writeFigures(write)
	write("## Where Pilotlight is behind\n\nEvery figure of which the whole interval says that another proxy is better:\n\n")
	list(write, r.behind(), "nowhere in this run")
	write("\n## What was on in Pilotlight\n\nBy its configuration in force, as `pilotlight validate` prints it:\n\n")
	list(write, r.Layers, "unknown: Pilotlight did not take part")
	write("\n## Measurements that came to nothing\n\n")
	failed := make([]string, 0, len(r.Failures))
	for _, f := range r.Failures {
		failed = append(failed, fmt.Sprintf("%s, case %s, round %d: %s", f.Arm, f.Case, f.Round, f.Error))
	}
	list(write, failed, "none")
	write("\n## How\n\n")
	write("- %d rounds. In each, every arm is a fresh process and all take turns case by case, beginning with another arm each round. Figures are medians of the rounds; the ratio is formed within each round, and in brackets is the 95 %% bootstrap interval of its median. A promise fails only when the whole interval misses it.\n", r.Rounds)
	write("- c=N keeps N requests under way over N kept connections (closed loop). N/s sends at a fixed rate, whatever comes back, and latency counts from when a request was due (open loop).\n")
	write("- Requests have a body of the named size, and so have their answers.\n")
	write("- A token's way is from just before the origin writes it until the client has read it, on one clock; the direct arm says how much of it is not the proxy's.\n")
	write("- CPU is user and system time of the proxy's processes, all threads, over the measured time. RSS is theirs too, of a program that is read from the disk at its first start, as on a node; memory that nginx's processes share counts once for each.\n")

	return page.String()
}

func (r *report) writeArms(write func(string, ...any)) {
	write("| arm | what | version |\n|---|---|---|\n")
	for _, info := range r.Arms {
		version := info.Version
		if info.Missing != "" {
			version = "missing: " + info.Missing
		}
		write("| %s | %s | %s |\n", info.Name, info.What, version)
	}
}

func (r *report) writePromises(write func(string, ...any)) {
	write("\n## Promises\n\n| arm | figure | expected | got | |\n|---|---|---|---|---|\n")
	for _, j := range r.judgements {
		m := measureOf(j.measure)
		write("| %s | %s | %s | %s | %s |\n", j.arm, m.title, j.expected(m.unit), j.found(m.unit), j.verdict)
	}
}

func (r *report) writeFigures(write func(string, ...any)) {
	there := r.measured()
	write("\n## Figures\n\nIn brackets: times the floor's figure.\n\n| |")
	for _, info := range there {
		write(" %s |", info.Name)
	}
	write("\n|---|%s\n", strings.Repeat("---|", len(there)))
	for _, m := range r.measures {
		write("| %s |", m.title)
		for _, info := range there {
			write(" %s |", r.cell(info.Name, m))
		}
		write("\n")
	}
	write("\n")
}

// cell is a figure of an arm with its unit, and its ratio to the floor.
func (r *report) cell(arm string, m measure) string {
	values := r.Figures.known(arm, m.id)
	if len(values) == 0 {
		return "-"
	}
	text := figure(median(values)) + " " + m.unit
	if m.unit == "/s" {
		text = figure(median(values)) + m.unit
	}
	if arm == floorArm {
		return text
	}
	if to := ratios(r.Figures.rounds(arm, m.id), r.Figures.rounds(floorArm, m.id)); len(to) > 0 {
		text += fmt.Sprintf(" (%.2f)", median(to))
	}

	return text
}

// figure writes three digits that count, and all that stand before the point.
func figure(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(v, 'f', digits, 64), ".")
	if len(whole) > 4 {
		for at := len(whole) - 3; at > 0; at -= 3 {
			whole = whole[:at] + "," + whole[at:]
		}
	}
	if fraction == "" {
		return whole
	}

	return whole + "." + fraction
}

func list(write func(string, ...any), items []string, none string) {
	if len(items) == 0 {
		write("- %s\n", none)
	}
	for _, item := range items {
		write("- %s\n", item)
	}
}
