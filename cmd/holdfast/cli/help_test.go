package cli

import (
	"slices"
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
		texts := []string{cmd.Long}
		for _, p := range usageOf(cmd) {
			if strings.HasSuffix(strings.ToLower(p.title), "flags") {
				texts = append(texts, p.text)
			}
		}
		for _, text := range texts {
			for line := range strings.Lines(text) {
				if n := len([]rune(strings.TrimRight(line, "\n"))); n > helpWidth && cmd.Name() != "environment" {
					t.Errorf("%s has a line of %d columns: %s", cmd.Name(), n, line)
				}
			}
		}
	})
}

// The usual flags are those of run, which come first.
func TestUsualFlags(t *testing.T) {
	run, _, err := newRoot().Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range usual {
		if run.Flags().Lookup(name) == nil {
			t.Errorf("run has no --%s", name)
		}
	}
	var titles []string
	for _, p := range usageOf(run) {
		titles = append(titles, p.title)
		if p.title == "Flags" && strings.Count(p.text, "[$") != len(usual)-1 { // -c has no variable
			t.Errorf("not the usual flags:\n%s", p.text)
		}
	}
	if want := []string{"Usage", "Examples", "Flags", "More flags"}; !slices.Equal(titles, want) {
		t.Errorf("the parts are %q, want %q", titles, want)
	}
}
