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
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	_, err := fmt.Fprintln(os.Stdout, version(info))
	return exit.Printed(err)
}

// version returns one line for bug reports. The version of a build between two releases has
// its commit and date. Holdfast's module may be part of a program with more stores.
func version(info *debug.BuildInfo) string {
	module := info.Main
	for _, m := range info.Deps {
		if m.Path == "github.com/holdfast-go/holdfast/cmd/holdfast" {
			module = *m
		}
	}
	return fmt.Sprintf("holdfast %s %s %s/%s", module.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
