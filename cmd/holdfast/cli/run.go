package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/acquire"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/job"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "run [flags] RESOURCE... (-- COMMAND [ARGUMENT...] | -c SCRIPT)",
		Short:      "Run a command while holding a lock",
		SuggestFor: []string{"exec", "with", "do"},
		Long: `Waits until the resource is free, runs the command while it holds the lock, and
releases the lock when the command has ended. The exit status is the command's,
or

` + exit.HelpOfRun() + `
If several resources are named, it acquires all of them or none. The command
gets stdin, stdout and stderr as they are, and in its environment
HOLDFAST_RESOURCE, HOLDFAST_LOCK_ID and HOLDFAST_TOKEN.

With --json-log each line on stderr is an object with time, msg and event, which
is waiting, no-answer, acquired (with waitedMs), wanted, lost, note or, at the
end, error (with status). If it is about one lock that is held, resource, lockId
and token name it.`,
		Example: `  holdfast run nightly-report -- ./report.sh
  holdfast run -n backup -- ./backup.sh              # or exit with 75 at once
  holdfast run --shared --limit 3 crawl -- ./crawl   # three at a time
  holdfast run --fair deploy -- ./deploy.sh          # first come, first served
  holdfast run reload -c 'make && ./reload'          # a script of sh`,
	}
	var j job.Job
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	j.TTL = holdfast.DefaultTTL
	flags.Func("ttl", "how long, as a `duration`, the lock lasts without renewal; the shorter, the\n"+
		"sooner it is lost if the store hangs (default 30s)", func(text string) (err error) {
		if text == "forever" {
			return errors.New("after a crash the lock would never be free again; " +
				"any TTL is renewed for as long as the command runs")
		}
		j.TTL, err = acquire.ParseTTL(text)
		return err
	})
	finish := j.Request.Flags(cmd)
	j.Policy.Flags(cmd)
	j.Hooks.Flags(cmd)
	script := script{flags: flags}
	flags.VarP(&script, "script", "c", "in place of a command: run this `script` of sh")
	j.Containment.Flags(cmd)

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := finish(); err != nil {
			return err
		}
		if flags.Changed("on-wanted") {
			j.NeedsQueue = env.Given(flags.Lookup("on-wanted"))
		}
		if err := j.Policy.Check(j.TTL); err != nil {
			return err
		}
		resources, command, err := runArguments(args, cmd.ArgsLenAtDash(), flags.Changed("script"), script.text)
		if err != nil {
			return err
		}
		if err := script.check(resources); err != nil {
			return err
		}
		if err := j.Containment.Check(j.Policy, flags.Changed("script")); err != nil {
			return err
		}
		j.Command = command
		if err := j.SetResources(resources...); err != nil {
			return err
		}
		// First, so that no lock is acquired for a command that cannot run.
		if err := j.Find(); err != nil {
			return err
		}
		if !flags.Changed("comment") {
			j.Options.Comment = j.Describe()
		}
		if j.Store, err = store(); err != nil {
			return err
		}
		return j.Run(cmd.Context())
	}
	return cmd
}

// script is the flag -c.
type script struct {
	flags  *pflag.FlagSet
	text   string
	before int // how many resources came before it
}

func (s *script) String() string { return s.text }
func (s *script) Type() string   { return "string" }

func (s *script) Set(text string) error {
	if text == "hild-exit-code" {
		return errors.New("-child-exit-code is a flag of consul lock; run exits with the status of its command anyway")
	}
	s.text, s.before = text, s.flags.NArg()
	return nil
}

// check refuses what looks like an argument of the script, and would be one more resource.
func (s *script) check(resources []string) error {
	if s.before > 0 && s.before < len(resources) {
		return exit.Usagef("%q comes after the script of -c, which gets no arguments; name all resources before it", resources[s.before])
	}
	return nil
}

// runArguments splits the arguments. dash is how many came before the first --. A script
// takes the place of the command.
func runArguments(args []string, dash int, scripted bool, script string) (resources, command []string, err error) {
	form := "holdfast run RESOURCE... -- COMMAND"
	if scripted {
		form = "holdfast run RESOURCE... -c SCRIPT"
	}
	if dash == 0 && len(args) > 1 && args[1] == "--" {
		// run -- -x -- COMMAND: the resource begins with a dash.
		args = append(args[:1:1], args[2:]...)
		dash = 1
	}
	if scripted && dash < 0 {
		dash = len(args)
	}
	switch {
	case dash < 0 && len(args) > 1:
		return nil, nil, exit.Usagef("the command begins after a --: %s", form)
	case len(args) == 0 || dash == 0:
		return nil, nil, exit.Usagef("no resource is named: %s", form)
	case scripted && len(args) > dash:
		return nil, nil, exit.Usagef("there is a command beside the script of -c; give one of them: %s", form)
	case scripted && script == "":
		return nil, nil, exit.Usagef("the script of -c is empty: %s", form)
	case scripted:
		return args, []string{"sh", "-c", script}, nil
	case len(args) <= max(dash, 1):
		return nil, nil, exit.Usagef("no command is given: %s", form)
	}
	return args[:dash], args[dash:], nil
}
