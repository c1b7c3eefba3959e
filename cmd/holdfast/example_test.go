//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// crontab is when a line of a crontab is due.
var crontab = regexp.MustCompile(`^\s*([0-9*/,-]+\s+){5}`)

// What the examples call is what there is. A shell reads them, in which holdfast
// is a function that notes its arguments and nothing else can be called.
func TestExamples(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs sh:", err)
	}
	walk(newRoot(), func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			line = strings.TrimSpace(crontab.ReplaceAllString(line, ""))
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			noted := filepath.Join(t.TempDir(), "noted")
			shell := exec.CommandContext(t.Context(), sh, "-c",
				`PATH= USER=ada REV=f00 ID=0123; holdfast() { printf '%s\0' "$@" >>"$NOTED"; printf '\n\0' >>"$NOTED"; }; `+line)
			shell.Dir = t.TempDir()
			shell.Env = append(os.Environ(), "NOTED="+noted)
			_ = shell.Run() // what else the line calls is not there
			calls, err := os.ReadFile(noted)
			if err != nil {
				t.Errorf("%q does not call holdfast", line)
				continue
			}
			for call := range bytes.SplitSeq(bytes.TrimSuffix(calls, []byte("\n\x00")), []byte("\n\x00")) {
				args := strings.Split(strings.TrimSuffix(string(call), "\x00"), "\x00")
				if err := accepts(args); err != nil {
					t.Errorf("%q: %v", line, err)
				}
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
		return usagef("%q is no command", args)
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
