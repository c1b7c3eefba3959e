package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags] RESOURCE -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: `Waits until nobody else holds the resource, runs the command, and gives the lock
back when the command has ended. The exit status is the command's, or

` + exit.HelpOfRun() + `
The command gets stdin, stdout and stderr as they are, and in its environment
HOLDFAST_RESOURCE, HOLDFAST_LOCK_ID and HOLDFAST_TOKEN.`,
		Example: `  holdfast run nightly-report -- ./report.sh
  holdfast run -n backup -- ./backup.sh              # or exit with 75 at once
  holdfast run --shared --limit 3 crawl -- ./crawl   # three at a time`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
	}
	var j job
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	j.ttl = holdfast.DefaultTTL
	flags.Func("ttl", "how long, as a `duration`, the lock outlives a holder that fell silent; the\n"+
		"shorter, the sooner a hung store costs the lock (default 30s)", func(text string) (err error) {
		if text == "forever" {
			return errors.New("after a crash the lock would never be free again; " +
				"any TTL is renewed for as long as the command runs")
		}
		j.ttl, err = parseTTL(text)
		return err
	})
	finish := j.acquisition.flags(cmd)
	j.policy.flags(cmd)

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := finish(); err != nil {
			return err
		}
		if err := j.policy.check(j.ttl); err != nil {
			return err
		}
		if err := j.parse(args, cmd.ArgsLenAtDash()); err != nil {
			return err
		}
		// What is wrong with the command is found out before a store is asked.
		if err := j.find(); err != nil {
			return err
		}
		var err error
		if j.store, err = store(); err != nil {
			return err
		}
		if err := j.notNested(os.Getenv(heldVariable)); err != nil {
			return err
		}
		return j.run(cmd.Context())
	}
	return cmd
}

// parse reads the arguments, of which dash stood before the first --.
func (j *job) parse(args []string, dash int) error {
	const form = "holdfast run RESOURCE -- COMMAND"
	if dash == 0 && len(args) > 1 && args[1] == "--" {
		// run -- -x -- COMMAND: the resource begins with a dash.
		args = append(args[:1:1], args[2:]...)
		dash = 1
	}
	switch {
	case dash < 0 && len(args) > 1:
		return exit.Usagef("the command begins after a --: %s", form)
	case len(args) == 0 || dash == 0:
		return exit.Usagef("no resource is named: %s", form)
	case dash > 1:
		return exit.Usagef("there is more than one resource: %s", form)
	case len(args) == 1:
		return exit.Usagef("no command is given: %s", form)
	}
	j.command = args[1:]
	return j.name(args[0])
}
