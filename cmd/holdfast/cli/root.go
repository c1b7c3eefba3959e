package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// execute runs the command line. It returns the exit status, or dies of the signal
// that ended run's command.
func execute(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	defer output.Flush()
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[*exit.Error](err)
	if !ok {
		// All commands return an exit.Error, so cobra could not parse the flags or
		// the arguments.
		e = &exit.Error{Status: exit.Usage, Text: secret.WithoutURLs(env.Misread(cmd, err))}
	}
	if e.Text != "" {
		text := e.Text
		if e.Status == exit.Usage {
			text = env.Blame(cmd, text)
		}
		output.SayEvent("error", []slog.Attr{slog.Int("status", e.Status)}, "%s", text)
	}
	if e.Signal != 0 {
		output.Flush()
		process.Die(e.Signal)
	}
	return e.Status
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast COMMAND",
		Short: "Run commands under a lock, one at a time",
		Long: `Holdfast runs a command while it holds a lock, so that a job runs once at a
time: on this machine without any set-up, or on all machines that share a store.`,
		Example: `  # In a crontab: skip the report while one is still being made, without a mail.
  HOLDFAST_STORE=postgres://db.example.com/app
  */5 * * * * holdfast run -q -n -E 0 --at-least 4m report -- ./report.sh

  # In a deploy script: wait for a deploy that runs, and say what this one is.
  holdfast run --wait 10m --comment "$USER deploys $REV" deploy -- ./deploy.sh

  # As a semaphore: at most three at a time.
  holdfast run --shared --limit 3 crawl -- ./crawl.sh`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := env.Take(cmd); err != nil {
				return err
			}
			return env.CheckRivals(cmd)
		},
		SuggestionsMinimumDistance: 2,
	}
	asksVersion := root.Flags().Bool("version", false, "print the version")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return noCommand(cmd, args[0])
		case *asksVersion:
			return printVersion()
		}
		return cmd.Help()
	}
	root.AddCommand(newRun(), newHeld(), newLock(), newUnlock(), newRenew(),
		newStatus(), newExplain(), newHistory(), newSweep(), newCheck(), newServe(), newToken(), newStores(), newSchema(), newVersion())
	root.AddGroup(&cobra.Group{ID: additional})
	addHelp(root)
	addCompletion(root)
	root.AddCommand(newTopics()...)
	root.SetUsageFunc(usage)
	walk(root, func(cmd *cobra.Command) {
		if cmd.HasFlags() { // then its Use says where they are
			cmd.DisableFlagsInUseLine = true
		}
	})
	complete(root)
	return root
}

// noCommand returns the error for a command that does not exist.
func noCommand(root *cobra.Command, name string) error {
	advice := "holdfast --help lists them"
	near := root.SuggestionsFor(name)
	if name == "top" || name == "watch" {
		near = []string{"status --watch"}
	}
	if len(near) > 0 {
		advice = fmt.Sprintf("did you mean %s? %s", strings.Join(near, " or "), advice)
	}
	return exit.Usagef("there is no command %s; %s", quote.Short(name), advice)
}

// noArgs is cobra.NoArgs with a message that mentions no sub-commands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("%s takes no argument, but got %s", cmd.CommandPath(), quote.Short(args[0]))
	}
	return nil
}
