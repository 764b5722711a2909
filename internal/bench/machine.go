package main

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine is what a figure depends on besides the programs.
type machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

func thisMachine() machine {
	m := machine{Cores: runtime.NumCPU(), CPU: runtime.GOARCH, Go: runtime.Version()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			m.CPU = strings.TrimSpace(value)

			break
		}
	}

	return m
}
