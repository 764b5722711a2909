package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machine is what a figure depends on besides the programs.
type machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// Load is how many threads wanted to run on average in the minute before: what others did on the machine meanwhile spoils the figures.
	Load float64 `json:"load"`
}

func thisMachine() machine {
	m := machine{Cores: runtime.NumCPU(), CPU: runtime.GOARCH, Go: runtime.Version()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		release, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-") // what a distribution adds says nothing about figures
		m.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + release
	}
	averages, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(averages), " ")
	m.Load, _ = strconv.ParseFloat(first, 64)
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			m.CPU = strings.TrimSpace(value)

			break
		}
	}

	return m
}
