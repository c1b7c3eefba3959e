package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Help fits a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	walk(newRoot(), func(cmd *cobra.Command) {
		if cmd.HasParent() && cmd.Parent().Name() == "completion" {
			return // cobra's own text
		}
		_, flags, _ := strings.Cut(helpOf(t, cmd), "\nFlags:\n")
		for line := range strings.Lines(cmd.Long + "\n" + flags) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > helpWidth && cmd.Name() != "environment" {
				t.Errorf("%s has a line of %d columns: %s", cmd.Name(), n, line)
			}
		}
	})
}

// The help of run has the usual flags first.
func TestUsualFlags(t *testing.T) {
	run, _, err := newRoot().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	_, flags, _ := strings.Cut(helpOf(t, run), "\nFlags:\n")
	flags, _, ok := strings.Cut(flags, "\n\nMore flags:\n")
	for _, name := range usual {
		if !strings.Contains(flags, " --"+name) {
			t.Errorf("the usual flags have no --%s", name)
		}
	}
	if !ok || strings.Count(flags, "[$") != len(usual)-1 { // -c has no variable
		t.Errorf("not the usual flags:\n%s", flags)
	}
}
