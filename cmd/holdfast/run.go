package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags] RESOURCE -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: `Waits until nobody else holds the resource, runs the command, and gives the lock
back when the command has ended. The exit status is the command's, or

` + runStatuses() + `
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

// job is one run of a command under a lock.
type job struct {
	acquisition
	policy
	command []string
	path    string // of the command's file

	failed atomic.Pointer[error] // how the last renewal went
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
		return usagef("the command begins after a --: %s", form)
	case len(args) == 0 || dash == 0:
		return usagef("no resource is named: %s", form)
	case dash > 1:
		return usagef("there is more than one resource: %s", form)
	case len(args) == 1:
		return usagef("no command is given: %s", form)
	}
	j.command = args[1:]
	return j.name(args[0])
}

// find finds the command's file.
func (j *job) find() error {
	name := j.command[0]
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		j.path = path
		return nil
	case errors.Is(err, exec.ErrDot):
		return exitf(statusNotExecutable, "%q is only in the current folder; write ./%s to mean that one", name, name)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return exitf(statusNotFound, "there is no command %q; check its name and PATH", name)
	}
	return cannotRun(name, err)
}

// cannotRun is the error of a command that is there.
func cannotRun(name string, err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno // without the path, which is named already
	}
	return exitf(statusNotExecutable, "%q cannot be run: %v; check its permissions and format", name, err)
}
