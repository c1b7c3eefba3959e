package cli

import (
	"fmt"
	"slices"
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

// usual are the flags of run that people use: its help names them first.
var usual = []string{
	"store", "ttl", "wait", "no-wait", "fair", "shared", "quiet", "conflict-exit", "script", "max-runtime",
}

// newTopics returns what help explains besides commands: as commands that do not run.
func newTopics() []*cobra.Command {
	topics := []*cobra.Command{
		{Use: "exit-codes", Short: "The exit statuses, and what to do about them", Long: exit.Help()},
		{Use: "environment", Short: "The environment variables that holdfast reads and sets", Long: environment()},
	}
	for _, t := range topics {
		t.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), cmd.Long) })
	}
	return topics
}

func environment() string {
	var b strings.Builder
	b.WriteString(`--store of all commands, and every flag but -c of run, lock and serve, may also be
given as a variable, which the help of the command names: HOLDFAST_STORE for
--store, HOLDFAST_NO_WAIT for --no-wait of run and lock, and HOLDFAST_SERVE_AUTH
for --auth of serve. The command line counts for more, also for flags that
exclude one another. A switch is true or false. An empty variable is an empty
value, which most flags refuse; unset it instead.

run sets for its command, and does not take as flags:

`)
	for _, v := range env.Told {
		fmt.Fprintf(&b, "  %-17s  %s\n", v.Name, v.Meaning)
	}
	b.WriteString(`
If the store is a server, HOLDFAST_SERVER_TOKEN has the caller's token, unless the
URL names a file with it.

If no store is named, the locks are below XDG_STATE_HOME, or else below HOME, or
else in the home folder that the system has for the user.
`)
	return b.String()
}

// addHelp adds cobra's command help, which takes an unknown topic for success.
func addHelp(root *cobra.Command) {
	root.SetHelpCommandGroupID(additional)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"}) // it is there now
	help.Use, help.Short = "help [COMMAND | TOPIC]", "Explain a command or a topic"
	help.Long, help.Run = "", nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		of, rest, err := cmd.Root().Find(args)
		if err != nil || len(rest) > 0 {
			return exit.Usagef("there is no help on %s; holdfast help lists all topics", quote.Short(strings.Join(args, " ")))
		}
		of.InitDefaultHelpFlag()
		return of.Help()
	}
}

// usage prints the usage of a command: as cobra has it, but wrapped, and with the variables
// of the flags.
func usage(cmd *cobra.Command) error {
	flags, more := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags, more.SortFlags = false, false
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		f := *flag
		f.Usage = strings.ReplaceAll(f.Usage, "\n", " ")
		if name := env.Variable(cmd, flag); name != "" {
			f.Usage += " [$" + name + "]"
		}
		if cmd.Name() == "run" && !slices.Contains(usual, f.Name) {
			more.AddFlag(&f)
		} else {
			flags.AddFlag(&f)
		}
	})
	before := ""
	for _, part := range []struct{ title, text string }{
		{"Usage", "  " + cmd.UseLine() + "\n"},
		{"Examples", cmd.Example + "\n"},
		{"Commands", list(cmd, func(c *cobra.Command) bool { return c.Runnable() && c.GroupID == "" })},
		{"Additional commands", list(cmd, func(c *cobra.Command) bool { return c.GroupID == additional })},
		{"Topics for help", list(cmd, (*cobra.Command).IsAdditionalHelpTopicCommand)},
		{"Flags", flags.FlagUsagesWrapped(helpWidth)},
		{"More flags", more.FlagUsagesWrapped(helpWidth)},
	} {
		if strings.TrimSpace(part.text) != "" {
			fmt.Fprintf(cmd.OutOrStderr(), "%s%s:\n%s", before, part.title, part.text)
			before = "\n"
		}
	}
	return nil
}

// list returns the wanted commands below cmd, one a line.
func list(cmd *cobra.Command, wanted func(*cobra.Command) bool) string {
	var b strings.Builder
	for _, c := range cmd.Commands() {
		if !c.Hidden && wanted(c) {
			fmt.Fprintf(&b, "  %-*s  %s\n", c.NamePadding(), c.Name(), c.Short)
		}
	}
	return b.String()
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
