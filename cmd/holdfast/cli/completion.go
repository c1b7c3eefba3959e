package cli

import (
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
)

// addCompletion adds cobra's command completion.
func addCompletion(root *cobra.Command) {
	root.CompletionOptions.DisableNoDescFlag = true // a variable of cobra's is enough
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.SetCompletionCommandGroupID(additional)
	root.InitDefaultCompletionCmd()
	cmd, _, _ := root.Find([]string{"completion"}) // it is there now
	cmd.Short = "Print the script that lets a shell complete commands and flags"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return exit.Usagef("name one shell: bash, zsh, fish or powershell; see %s --help", cmd.CommandPath())
	}
	for _, shell := range cmd.Commands() {
		script := shell.RunE
		shell.RunE = func(cmd *cobra.Command, args []string) error { return exit.Printed(script(cmd, args)) }
	}
}

// complete declares the completions. None of them uses a store, which might not
// answer.
func complete(root *cobra.Command) {
	stores := []string{"local", "env:", "file:"}
	for _, k := range location.Kinds {
		for _, scheme := range k.Schemes {
			if !k.EndsWithProcess() {
				stores = append(stores, scheme+":\t"+k.Form)
			}
		}
	}
	walk(root, func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("store") != nil {
			_ = cmd.RegisterFlagCompletionFunc("store", // which is there
				cobra.FixedCompletions(stores, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
		}
		if cmd.Name() == "run" {
			cmd.ValidArgsFunction = completeCommand
		}
	})
}

// completeCommand lets the shell complete files after the -- of run.
func completeCommand(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	if slices.Contains(os.Args[:len(os.Args)-1], "--") { // cobra adds a -- of its own to what pflag parses
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
