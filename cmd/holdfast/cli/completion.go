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

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:     "completion SHELL",
		Short:   "Print the script that lets a shell complete commands and flags",
		GroupID: additional,
		Long: `Prints the script that makes a shell complete holdfast's commands and flags with
the Tab key. SHELL is bash, zsh, fish or powershell. Completion never uses a
store.

bash, with the package bash-completion installed; for all users, or only you:

  holdfast completion bash > /etc/bash_completion.d/holdfast
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast

zsh, in a folder that is in $fpath before compinit runs:

  holdfast completion zsh > /usr/local/share/zsh/site-functions/_holdfast

fish:

  holdfast completion fish > ~/.config/fish/completions/holdfast.fish

powershell, in your profile:

  holdfast completion powershell | Out-String | Invoke-Expression

It works in shells that start after that. To try it in this one, in bash or zsh:

  source <(holdfast completion bash)

HOLDFAST_COMPLETION_DESCRIPTIONS=false leaves out the descriptions of flags.`,
		DisableFlagsInUseLine: true,
		ValidArgs:             shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return exit.Usagef("name one shell: %s", strings.Join(shells, ", "))
			}
			root := cmd.Root()
			var err error
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(os.Stdout, true)
			case "zsh":
				err = root.GenZshCompletion(os.Stdout)
			case "fish":
				err = root.GenFishCompletion(os.Stdout, true)
			case "powershell":
				err = root.GenPowerShellCompletionWithDesc(os.Stdout)
			}
			return exit.Printed(err)
		},
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
		for _, file := range filesWith(path) {
			forms = append(forms, "file:"+file)
		}
	}
	return forms, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// filesWith returns the files and, with a slash at the end, the folders whose path
// begins with the prefix.
func filesWith(prefix string) []string {
	folder, name := filepath.Split(prefix)
	entries, _ := os.ReadDir(filepath.Clean(folder)) // a folder that cannot be read has nothing to offer
	var found []string
	for _, e := range entries {
		switch hidden := strings.HasPrefix(e.Name(), ".") && name == ""; {
		case hidden || !strings.HasPrefix(e.Name(), name):
		case e.IsDir():
			found = append(found, folder+e.Name()+string(filepath.Separator))
		default:
			found = append(found, folder+e.Name())
		}
	}
	return found
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
		for _, file := range filesWith(filepath.Join(folder, prefix)) {
			if path, err := exec.LookPath(file); err == nil {
				found = append(found, filepath.Base(path))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), cobra.ShellCompDirectiveDefault
}
