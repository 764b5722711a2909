package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCmd prints the version.
type versionCmd struct{}

// Run prints what was built, from which revision, with which Go.
func (*versionCmd) Run(std *stdio) error {
	_, err := fmt.Fprintf(std.out, "pilotlight %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)

	return err
}

// version is the module's version, or the revision that a plain build was made from.
func version() string {
	info, known := debug.ReadBuildInfo()
	if !known {
		return "unknown"
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}

	return "devel"
}
