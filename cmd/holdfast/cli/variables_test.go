package cli

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
)

// One variable is one thing: for run and lock the flag of the same name. All
// commands take theirs, and none what run sets.
func TestVariablesOfAllCommands(t *testing.T) {
	root, gives := newRoot(), make(map[string]string)
	walk(root, func(cmd *cobra.Command) {
		if cmd != root && (cmd.PersistentPreRunE != nil || cmd.PersistentPreRun != nil) {
			t.Errorf("%s has a hook of its own, and so takes no variables", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			name := env.Variable(cmd, flag)
			if name == "" {
				return
			}
			if other := gives[name]; other != "" && other != flag.Name {
				t.Errorf("%s gives --%s and --%s", name, other, flag.Name)
			}
			gives[name] = flag.Name
			told := slices.ContainsFunc(env.Told, func(v struct{ Name, Meaning string }) bool { return v.Name == name })
			if told && (cmd.Name() != "lock" || flag.Name != "lock-id") {
				t.Errorf("%s is set by run and gives --%s of %s", name, flag.Name, cmd.Name())
			}
		})
	})
}
