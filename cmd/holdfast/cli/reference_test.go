package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	write = flag.Bool("write", false, "write docs/reference.md instead of comparing it")
	man   = flag.String("man", "", "the `folder` to write the manual pages into")
)

// helpOf returns what --help prints.
func helpOf(t *testing.T, cmd *cobra.Command) string {
	t.Helper()
	var help strings.Builder
	cmd.SetOut(&help)
	cmd.InitDefaultHelpFlag()
	if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(help.String())
}

// docs/reference.md is the help of all commands.
func TestReference(t *testing.T) {
	const file = "../../../docs/reference.md"
	var page strings.Builder
	page.WriteString("# Reference of the command\n\nWhat `--help` prints for each command. `make docs` writes this page; " +
		"[cli.md](cli.md) is the guide.\n")
	walk(newRoot(), func(cmd *cobra.Command) {
		fmt.Fprintf(&page, "\n## %s\n\n```text\n%s\n```\n", cmd.CommandPath(), helpOf(t, cmd))
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

// The manual pages of the packages are the help of the commands, without a date, so that the
// same commit always has the same.
func TestManual(t *testing.T) {
	if *man == "" {
		*man = t.TempDir()
	}
	// roff would take these characters for commands or typography.
	escape := strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`, "\n.", "\n\\&.")
	var files []string
	walk(newRoot(), func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		files = append(files, filepath.Join(*man, name+".1"))
		page := fmt.Sprintf(".TH %s 1 \"\" \"\" \"Holdfast\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.EX\n%s\n.EE\n",
			escape.Replace(strings.ToUpper(name)), escape.Replace(name), escape.Replace(cmd.Short), escape.Replace(helpOf(t, cmd)))
		if err := os.WriteFile(files[len(files)-1], []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	for _, checker := range [][]string{
		{"groff", "-man", "-ww", "-z", "-Tutf8"},
		{"mandoc", "-T", "lint", "-W", "error"},
	} {
		path, err := exec.LookPath(checker[0])
		if err != nil {
			continue // it is not installed
		}
		out, err := exec.CommandContext(t.Context(), path, append(checker[1:], files...)...).CombinedOutput()
		if err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("%s: %v\n%s", checker[0], err, out)
		}
	}
}
