package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// Help fits a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	root := newRoot()
	root.InitDefaultHelpCmd()
	texts := make(map[string]string)
	walk(root, func(cmd *cobra.Command) {
		texts[cmd.Name()] = cmd.Long + "\n" + withVariables(cmd).FlagUsagesWrapped(helpWidth)
	})
	texts["exit-codes"] = exit.Help()
	for name, text := range texts {
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > helpWidth {
				t.Errorf("%s has a line of %d columns: %s", name, n, line)
			}
		}
	}
}
