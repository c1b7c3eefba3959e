//go:build linux

package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var write = flag.Bool("write", false, "write docs/reference.md instead of comparing it")

// docs/reference.md is the help of all commands.
func TestReference(t *testing.T) {
	const file = "../../../docs/reference.md"
	var page strings.Builder
	page.WriteString("# Reference of the command\n\nWhat `--help` prints for each command. `make docs` writes this page; " +
		"[cli.md](cli.md) is the guide.\n")
	walk(newRoot(), func(cmd *cobra.Command) {
		var help strings.Builder
		cmd.SetOut(&help)
		cmd.InitDefaultHelpFlag()
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&page, "\n## %s\n\n```text\n%s\n```\n", cmd.CommandPath(), strings.TrimSpace(help.String()))
	})
	if *write {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != page.String() {
		t.Errorf("%s is not what the commands say: make docs writes it (error %v)", file, err)
	}
}
