package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/driver"
)

// addCompletion adds cobra's command completion.
func addCompletion(root *cobra.Command) {
	root.CompletionOptions.DisableNoDescFlag = true // a variable of cobra's is enough
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
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	walk(root, func(cmd *cobra.Command) {
		for flag, complete := range map[string]cobra.CompletionFunc{
			"store":     completeStore,
			"on-wanted": cobra.FixedCompletions(process.Names(), cobra.ShellCompDirectiveNoFileComp),
			"on-loss":   cobra.FixedCompletions([]string{"kill", "warn"}, cobra.ShellCompDirectiveNoFileComp),
		} {
			if cmd.Flags().Lookup(flag) != nil {
				_ = cmd.RegisterFlagCompletionFunc(flag, complete) // fails for a flag that is not there
			}
		}
		if cmd.Name() == "run" {
			cmd.ValidArgsFunction = completeCommand
		}
	})
}

// explainFlags turns the texts of all flags into what shells show beside them: one
// line without marks.
func explainFlags(root *cobra.Command) {
	walk(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			_, text := pflag.UnquoteUsage(flag)
			flag.Usage = strings.ReplaceAll(text, "\n", " ")
		})
	})
}

// completeStore completes the scheme of a URL, and the names after env: and file:.
func completeStore(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	forms := []string{
		"local\tthis user's file on this host",
		"env:\tthe URL is in a variable",
		"file:\tthe URL is in a file",
	}
	for _, s := range location.Kinds {
		if s.Varies() || s.Traits.Reach != driver.Process {
			for _, scheme := range s.Schemes {
				forms = append(forms, scheme+":\t"+s.Form)
			}
		}
	}
	if name, ok := strings.CutPrefix(prefix, "env:"); ok {
		forms = nil
		for _, v := range os.Environ() {
			if v, _, _ := strings.Cut(v, "="); strings.HasPrefix(v, name) && location.VariableName.MatchString(v) {
				forms = append(forms, "env:"+v)
			}
		}
	}
	if path, ok := strings.CutPrefix(prefix, "file:"); ok {
		forms = nil
		files, _ := filepath.Glob(path + "*") // what is no pattern has nothing to offer
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.IsDir() {
				file += string(filepath.Separator)
			}
			forms = append(forms, "file:"+file)
		}
	}
	return forms, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeCommand completes the words after the -- of run: a command in PATH, else
// files.
func completeCommand(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	// os.Args, since cobra adds a -- of its own to what pflag parses.
	line := os.Args[1 : len(os.Args)-1]
	switch {
	case !slices.Contains(line, "--"):
		return nil, cobra.ShellCompDirectiveNoFileComp
	case len(args) > 1 || prefix == "" || strings.ContainsRune(prefix, filepath.Separator):
		return nil, cobra.ShellCompDirectiveDefault
	}
	var found []string
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		files, _ := filepath.Glob(filepath.Join(folder, prefix+"*"))
		for _, file := range files {
			if path, err := exec.LookPath(file); err == nil {
				found = append(found, filepath.Base(path))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), cobra.ShellCompDirectiveDefault
}
