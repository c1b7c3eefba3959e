package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// crontab is the time in a line of a crontab.
var crontab = regexp.MustCompile(`(?m)^\s*([0-9*/,-]+\s+){5}`)

// call is where an example calls holdfast.
var call = regexp.MustCompile(`(?m)^[^#\n]*\bholdfast [a-z]`)

// What the examples call is what there is. A shell reads them, in which holdfast
// is a function that notes its arguments and nothing else can be called.
func TestExamples(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh:", err)
	}
	walk(newRoot(), func(cmd *cobra.Command) {
		if !cmd.HasExample() {
			return
		}
		noted := filepath.Join(t.TempDir(), "noted")
		shell := exec.CommandContext(t.Context(), sh, "-c",
			`PATH=; holdfast() { printf '%s\0' "$@" >>"$NOTED"; printf '\n\0' >>"$NOTED"; }`+"\n"+crontab.ReplaceAllString(cmd.Example, ""))
		shell.Dir = t.TempDir()
		shell.Env = append(os.Environ(), "NOTED="+noted, "USER=ada", "REV=f00")
		_ = shell.Run() // what else the example calls is not there
		text, err := os.ReadFile(noted)
		if err != nil {
			t.Errorf("the example of %s does not call holdfast", cmd.CommandPath())
			return
		}
		calls := bytes.Split(bytes.TrimSuffix(text, []byte("\n\x00")), []byte("\n\x00"))
		if want := len(call.FindAllString(cmd.Example, -1)); len(calls) < want {
			t.Errorf("the example of %s calls holdfast %d times, want %d", cmd.CommandPath(), len(calls), want)
		}
		for _, c := range calls {
			args := strings.Split(strings.TrimSuffix(string(c), "\x00"), "\x00")
			if err := accepts(args); err != nil {
				t.Errorf("the example of %s calls holdfast %q: %v", cmd.CommandPath(), args, err)
			}
		}
	})
}

// accepts parses the command line as far as it can be without running it.
func accepts(args []string) error {
	cmd, rest, err := newRoot().Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if !cmd.HasParent() {
		return exit.Usagef("%q is no command", args)
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
