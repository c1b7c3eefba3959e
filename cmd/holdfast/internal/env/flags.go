// Package env has the environment variables of holdfast: those that give flags
// their values, and those that run sets for its command.
package env

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// fromVariable annotates a flag with the variable that gave it.
const fromVariable = "holdfast_from_variable"

// mutuallyExclusive is cobra's annotation for MarkFlagsMutuallyExclusive: a list
// of names for each group.
const mutuallyExclusive = "cobra_annotation_mutually_exclusive"

// lineOnly lists the flags that only the command line has.
var lineOnly = []string{"help", "version", "script"}

// Variable returns the name of the variable that can give the command's flag, "" if
// there is none. run and lock share their variables, and --store is the same everywhere.
func Variable(cmd *cobra.Command, flag *pflag.Flag) string {
	prefix, command := "HOLDFAST_", cmd.Name()
	switch {
	case slices.Contains(lineOnly, flag.Name):
		return ""
	case flag.Name == "store", command == "run", command == "lock":
	case command == "serve":
		prefix += "SERVE_"
	default:
		return ""
	}
	return prefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
}

// Take sets the flags that are not on the command line from their variables. A flag
// on the command line overrides the variables of the flags that it excludes, too.
func Take(cmd *cobra.Command) error {
	flags := cmd.Flags()
	var invalid error
	flags.VisitAll(func(flag *pflag.Flag) {
		name := Variable(cmd, flag)
		if name == "" || flag.Changed || invalid != nil {
			return
		}
		text, set := os.LookupEnv(name)
		if !set || name == LockIDVariable && IsAround(text) {
			return
		}
		if slices.ContainsFunc(rivals(flags, flag), func(r *pflag.Flag) bool { return r.Changed && !ByVariable(r) }) {
			return
		}
		if no, err := strconv.ParseBool(text); err == nil && !no && flag.Value.Type() == "bool" && flag.DefValue == "false" {
			return // and so it excludes no other
		}
		if err := flags.Set(flag.Name, text); err != nil {
			invalid = exit.Usagef("%s cannot be %s: %s", name, quote.Short(text), cause(err))
			return
		}
		invalid = flags.SetAnnotation(flag.Name, fromVariable, []string{name})
	})
	return invalid
}

// Misread returns the message about flags on the command line that cannot be parsed.
func Misread(cmd *cobra.Command, err error) string {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Sprintf("--%s cannot be %s: %s; see %s --help", wrong.GetFlag().Name, quote.Short(wrong.GetValue()), cause(err), cmd.CommandPath())
	}
	advice := ""
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		advice = suggest(cmd, unknown)
	}
	return fmt.Sprintf("%v;%s see %s --help", err, advice, cmd.CommandPath())
}

// habits are flags of flock, timeout and sem, and what a user of those means.
var habits = map[string]string{
	"w": "--wait", "lock-timeout": "--wait", "try": "--wait", "s": "--shared", "nb": "--no-wait", "nonblock": "--no-wait", "nonblocking": "--no-wait",
	"timeout": "--wait, or --max-runtime for the command", "k": "--kill-after", "j": "--shared --limit", "jobs": "--shared --limit",
	"command": "--script",
}

// suggest returns which flag was meant by one of another program, or by one dash too few.
func suggest(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	name := unknown.GetSpecifiedName()
	long, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "=")
	switch {
	case name == "child-exit-code":
		return " run exits with the status of its command anyway;"
	case name == "x" && cmd.Flags().Lookup("shared") != nil:
		return " a lock is exclusive without --shared;"
	case habits[long] != "":
		name = long
	case len(long) > 1 && cmd.Flags().Lookup(long) != nil:
		return " did you mean --" + long + "?"
	}
	if meant := habits[name]; meant != "" {
		if cmd.Flags().Lookup(strings.Trim(strings.Fields(meant)[0], "-,")) != nil {
			return " did you mean " + meant + "?"
		}
	}
	return ""
}

// cause returns what is wrong with the value of a flag.
func cause(err error) string {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = wrong.Unwrap()
	}
	wrong, ok := errors.AsType[*strconv.NumError](err)
	switch {
	case ok && errors.Is(wrong, strconv.ErrRange):
		return "it is out of range"
	case ok && wrong.Func == "ParseBool":
		return "want true or false"
	case ok:
		return "want a whole number"
	}
	return err.Error()
}

// ByVariable reports whether a variable gave the flag.
func ByVariable(flag *pflag.Flag) bool { return flag.Annotations[fromVariable] != nil }

// Given returns how the flag was given: as its variable's name, or as its own.
func Given(flag *pflag.Flag) string {
	if ByVariable(flag) {
		return flag.Annotations[fromVariable][0]
	}
	return "--" + flag.Name
}

// rivals returns the flags that exclude the flag.
func rivals(flags *pflag.FlagSet, flag *pflag.Flag) []*pflag.Flag {
	var others []*pflag.Flag
	for _, group := range flag.Annotations[mutuallyExclusive] {
		for name := range strings.FieldsSeq(group) {
			if name != flag.Name {
				others = append(others, flags.Lookup(name))
			}
		}
	}
	return others
}

// CheckRivals refuses flags that exclude each other, in plainer words than cobra's.
func CheckRivals(cmd *cobra.Command) error {
	var err error
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		for _, r := range rivals(cmd.Flags(), flag) {
			if r.Changed && err == nil {
				err = exit.Usagef("%s and %s exclude each other; give one of them", Given(flag), Given(r))
			}
		}
	})
	return err
}

// Blame adds the variables that gave the flags to the text of a usage error: a
// mistake in a variable is not on the command line.
func Blame(cmd *cobra.Command, text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r != '-' && (r < 'a' || r > 'z')
	})
	prose := " " + strings.Join(words, " ") + " "
	var names []string
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		about := slices.Contains(words, "--"+flag.Name) || strings.Contains(prose, " "+strings.ReplaceAll(flag.Name, "-", " ")+" ")
		if name := Given(flag); ByVariable(flag) && about && !strings.Contains(text, name) {
			names = append(names, name)
		}
	})
	if len(names) > 0 {
		text += " (from " + strings.Join(names, ", ") + ")"
	}
	return text
}
