package cli

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE:  func(*cobra.Command, []string) error { return printVersion() },
	}
}

func printVersion() error {
	_, err := fmt.Fprintln(os.Stdout, version(buildInfo()), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
	return exit.Printed(err)
}

func buildInfo() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return &debug.BuildInfo{}
}

// version returns the name of the program with its version, which, between two releases, has
// the commit and date. Holdfast's module may be part of a program with more stores.
func version(info *debug.BuildInfo) string {
	module := info.Main
	for _, m := range info.Deps {
		if m.Path == "github.com/holdfast-go/holdfast/cmd/holdfast" {
			module = *m
		}
	}
	return "holdfast " + module.Version
}
