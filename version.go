package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionCmd prints the version.
type versionCmd struct{}

func (*versionCmd) Command() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version."}
}

// Run prints what was built, from which revision, with which Go.
func (*versionCmd) Run(_ context.Context, std *stdio) error {
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
