package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

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

// manPage returns the help of a command in the macros of man(7). It has no date, so
// that pages can be compared.
func manPage(cmd *cobra.Command, source string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s\" \"Holdfast\"\n", roff(strings.ToUpper(pageName(cmd))), roff(source))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(cmd)), roff(cmd.Short))
	cmd.InitDefaultHelpFlag()
	parts := append([]part{{"Description", cmd.Long}}, usageOf(cmd)...)
	if cmd.HasParent() {
		parts = append(parts, part{"See also", pageName(cmd.Parent()) + "(1)"})
	}
	for _, c := range cmd.Commands() {
		if c.IsAdditionalHelpTopicCommand() {
			parts = append(parts, part{strings.ReplaceAll(c.Name(), "-", " "), c.Long})
		}
	}
	for _, p := range parts {
		fmt.Fprintf(&b, ".SH %s\n.EX\n", strings.ToUpper(p.title))
		for line := range strings.SplitSeq(strings.TrimRight(p.text, "\n"), "\n") {
			b.WriteString(roff(line) + "\n")
		}
		b.WriteString(".EE\n")
	}
	return b.String()
}

// escapes keeps roff from taking characters for commands or typography.
var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, `"`, `\(dq`)

func roff(text string) string {
	text = escapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
