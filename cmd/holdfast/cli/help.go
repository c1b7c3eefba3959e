package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// helpWidth is the width of help in columns.
const helpWidth = 80

// additional is the group of the commands that are about holdfast itself.
const additional = "additional"

// topics lists what help explains besides commands.
var topics = []struct {
	name, title, short string
	text               func(root *cobra.Command) string
}{
	{"exit-codes", "exit status", "The exit statuses, and what to do about them", func(*cobra.Command) string { return exit.Help() }},
	{"environment", "environment", "The environment variables that holdfast reads and sets", environment},
}

// newTopics returns the topics as commands that do not run, as cobra has them.
func newTopics() []*cobra.Command {
	cmds := make([]*cobra.Command, len(topics))
	for i, t := range topics {
		cmds[i] = &cobra.Command{Use: t.name, Short: t.short}
		cmds[i].SetHelpFunc(func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), t.text(cmd.Root()))
		})
	}
	return cmds
}

func environment(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(`Every flag but -c may also be given as a variable. The command line counts for
more, also for flags that exclude one another. A switch is true or false. An
empty variable is an empty value, which most flags refuse; unset it instead.

`)
	const row = "  %-*s  %s\n"
	rows := variables(root)
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	for _, r := range rows {
		fmt.Fprintf(&b, row, width, r[0], r[1])
	}
	b.WriteString("\nrun sets for its command, and does not take as flags:\n\n")
	for _, v := range env.Told {
		fmt.Fprintf(&b, row, width, v.Name, v.Meaning)
	}
	b.WriteString("\nIf the store is a server, HOLDFAST_SERVER_TOKEN has the caller's token, unless the\nURL names a file with it.\n")
	b.WriteString("\nIf no store is named, the locks are below XDG_STATE_HOME, or else below HOME, or\nelse in the home folder that the system has for the user.\n")
	return b.String()
}

func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND | TOPIC]",
		Short:   "Explain a command or a topic",
		GroupID: additional,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			var found []string
			if len(args) == 0 {
				for _, c := range cmd.Root().Commands() {
					if !c.Hidden && strings.HasPrefix(c.Name(), prefix) {
						found = append(found, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return exit.Usagef("there is no help on %s; holdfast help lists all topics", quote.Short(strings.Join(args, " ")))
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// usage prints the usage of a command: as cobra does, but wrapped, and with the
// variables of the flags.
func usage(cmd *cobra.Command) error {
	out := cmd.OutOrStderr()
	fmt.Fprintf(out, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasExample() {
		fmt.Fprintf(out, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	listCommands(out, "Commands", cmd, func(c *cobra.Command) bool { return c.Runnable() && c.GroupID == "" })
	listCommands(out, "Additional commands", cmd, func(c *cobra.Command) bool { return c.GroupID == additional })
	listCommands(out, "Topics for help", cmd, (*cobra.Command).IsAdditionalHelpTopicCommand)
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(out, "\nFlags:\n%s", withVariables(cmd).FlagUsagesWrapped(helpWidth))
	}
	return nil
}

// listCommands prints the wanted commands below cmd, if there are any.
func listCommands(out io.Writer, title string, cmd *cobra.Command, wanted func(*cobra.Command) bool) {
	for _, c := range cmd.Commands() {
		if c.Hidden || !wanted(c) {
			continue
		}
		if title != "" {
			fmt.Fprintf(out, "\n%s:\n", title)
			title = ""
		}
		fmt.Fprintf(out, "  %-*s  %s\n", c.NamePadding(), c.Name(), c.Short)
	}
}

// withVariables returns the flags of a command with their variables in the texts.
func withVariables(cmd *cobra.Command) *pflag.FlagSet {
	shown := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	shown.SortFlags = false
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		f := *flag
		f.Usage = strings.ReplaceAll(f.Usage, "\n", " ")
		if name := env.Variable(cmd, flag); name != "" {
			f.Usage += " [$" + name + "]"
		}
		shown.AddFlag(&f)
	})
	return shown
}
