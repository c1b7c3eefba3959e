package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
)

// One variable is one thing: for run and lock the flag of the same name. All
// commands take theirs, and none what run sets.
func TestVariablesOfAllCommands(t *testing.T) {
	root := newRoot()
	walk(root, func(cmd *cobra.Command) {
		if cmd != root && (cmd.PersistentPreRunE != nil || cmd.PersistentPreRun != nil) {
			t.Errorf("%s has a hook of its own, and so takes no variables", cmd.CommandPath())
		}
	})
	for _, row := range variables(root) {
		var names []string
		for use := range strings.SplitSeq(row[1], ", ") {
			_, flag, _ := strings.Cut(use, "--")
			names = append(names, flag)
		}
		if len(slices.Compact(names)) > 1 {
			t.Errorf("%s gives %s", row[0], row[1])
		}
		for _, v := range env.Told {
			if v.Name == row[0] && row[1] != "lock --lock-id" {
				t.Errorf("%s is set by run and gives %s", row[0], row[1])
			}
		}
	}
}
