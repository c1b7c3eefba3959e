package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
)

// variables returns the variables of all commands below root, each with the flags
// that it sets.
func variables(root *cobra.Command) [][]string {
	var names []string
	gives := make(map[string][]string)
	walk(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			name := env.Variable(cmd, flag)
			if name == "" {
				return
			}
			if gives[name] == nil {
				names = append(names, name)
			}
			command := strings.Join(strings.Fields(cmd.CommandPath())[1:], " ")
			if slices.Contains(env.Everywhere, flag.Name) {
				gives[name] = []string{"--" + flag.Name + " of all commands"}
			} else {
				gives[name] = append(gives[name], command+" --"+flag.Name)
			}
		})
	})
	rows := make([][]string, len(names))
	for i, name := range names {
		rows[i] = []string{name, strings.Join(gives[name], ", ")}
	}
	return rows
}

// walk calls visit for the command and those below it that are not hidden.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			walk(c, visit)
		}
	}
}
