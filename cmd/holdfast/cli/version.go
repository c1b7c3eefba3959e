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

// moduleVersion returns the version of holdfast's module, which may be part of a
// program with more stores.
func moduleVersion(info *debug.BuildInfo) string {
	for _, m := range info.Deps {
		if m.Path == "github.com/holdfast-go/holdfast/cmd/holdfast" {
			return m.Version
		}
	}
	return info.Main.Version
}

// version returns one line for bug reports. A build of a clone has the commit and its
// date; go install of a version has none.
func version(info *debug.BuildInfo) string {
	text := "holdfast " + moduleVersion(info)
	for _, s := range info.Settings { // in this order
		switch {
		case s.Key == "vcs.revision":
			text += " revision " + s.Value
		case s.Key == "vcs.time":
			text += " of " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			text += " (modified)"
		}
	}
	return fmt.Sprintf("%s %s %s/%s", text, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
