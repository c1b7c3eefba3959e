package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a folder",
		GroupID: additional,
		Long: `Writes a manual page for holdfast and each of its commands into the folder,
which it creates if it is missing. The same version always writes the same
pages.`,
		Example:               `  holdfast man /usr/local/share/man/man1`,
		DisableFlagsInUseLine: true,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return exit.Usagef("name one folder for the pages: %s", cmd.UseLine())
			}
			return exit.Printed(writePages(cmd.Root(), args[0]))
		},
	}
}

func writePages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	source := root.Name()
	if info, ok := debug.ReadBuildInfo(); ok {
		source += " " + moduleVersion(info)
	}
	var failed error
	walk(root, func(cmd *cobra.Command) {
		if failed == nil && cmd.Runnable() {
			failed = os.WriteFile(filepath.Join(dir, pageName(cmd)+".1"), []byte(manPage(cmd, source)), 0o644)
		}
	})
	return failed
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns the page of a command in the macros of man(7). It has no date, so
// that pages can be compared.
func manPage(cmd *cobra.Command, source string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s\" \"Holdfast\"\n", roff(strings.ToUpper(pageName(cmd))), roff(source))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR%s\n", roff(cmd.CommandPath()), roff(strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())))
	if cmd.Long != "" {
		b.WriteString(".SH DESCRIPTION\n" + paragraphs(cmd.Long))
	}
	manCommands(&b, cmd)
	cmd.InitDefaultHelpFlag()
	b.WriteString(".SH OPTIONS\n")
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			manOption(&b, cmd, flag)
		}
	})
	if cmd.HasExample() {
		b.WriteString(".SH EXAMPLES\n" + literal(strings.TrimRight(cmd.Example, "\n")))
	}
	if !cmd.HasParent() {
		for _, t := range topics {
			fmt.Fprintf(&b, ".SH %s\n%s", roff(strings.ToUpper(t.title)), paragraphs(t.text(cmd)))
		}
	} else {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(pageName(cmd.Parent())))
	}
	return b.String()
}

func manCommands(b *strings.Builder, cmd *cobra.Command) {
	title := ".SH COMMANDS\n"
	for _, c := range cmd.Commands() {
		if c.Runnable() && !c.Hidden {
			fmt.Fprintf(b, "%s.TP\n.BR %s (1)\n%s\n", title, roff(pageName(c)), roff(c.Short))
			title = ""
		}
	}
}

func manOption(b *strings.Builder, cmd *cobra.Command, flag *pflag.Flag) {
	value, text := pflag.UnquoteUsage(flag)
	b.WriteString(".TP\n")
	if flag.Shorthand != "" {
		fmt.Fprintf(b, "\\fB%s\\fR, ", roff("-"+flag.Shorthand))
	}
	fmt.Fprintf(b, "\\fB%s\\fR", roff("--"+flag.Name))
	if value != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
	}
	fmt.Fprintf(b, "\n%s\n", roff(strings.ReplaceAll(text, "\n", " ")))
	switch flag.DefValue {
	case "", "0", "0s", "false", "[]": // as in help
	default:
		fmt.Fprintf(b, "(default %s)\n", roff(flag.DefValue))
	}
	if name := env.Variable(cmd, flag); name != "" {
		fmt.Fprintf(b, "\\%%[$%s]\n", roff(name)) // \% keeps it in one line
	}
}
