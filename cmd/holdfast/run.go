package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags] RESOURCE -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lock",
		Long: `Waits until nobody else holds the resource, runs the command, and gives the lock
back when the command has ended. The exit status is the command's, or

  64   the command line is wrong; nothing was done
  69   the store cannot be used
  75   the lock was not acquired in time; the command was not run
  76   the lock was lost; the command was ended
  126  the command cannot be run
  127  there is no such command
  128  and n: the command died of signal n

The command gets stdin, stdout and stderr as they are, and in its environment
HOLDFAST_RESOURCE, HOLDFAST_LOCK_ID and HOLDFAST_TOKEN.`,
		Example: `  holdfast run nightly-report -- ./report.sh
  holdfast run -n backup -- ./backup.sh              # or exit with 75 at once
  holdfast run --shared --limit 3 crawl -- ./crawl   # three at a time`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
	}
	j := job{ttl: holdfast.DefaultTTL}
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	flags.Func("ttl", "how long, as a `duration`, the lock outlives a holder that fell silent; the\n"+
		"shorter, the sooner a hung store costs the lock (default 30s)", func(text string) (err error) {
		j.ttl, err = parseTTL(text)
		return err
	})
	flags.DurationVar(&j.wait, "wait", 0, "the longest `duration` to wait for the lock (default without end)")
	now := flags.BoolP("no-wait", "n", false, "do not wait: the same as --wait 0")
	shared := flags.Bool("shared", false, "share the resource with others who share it")
	flags.IntVar(&j.lock.Limit, "limit", 0, "with --shared: at most `N` at a time (default no limit)")
	flags.StringVar(&j.lock.Owner, "owner", "", "the `name` to be shown as the holder's (default the user's)")
	flags.StringVar(&j.lock.Comment, "comment", "", "a `text` to be shown to those who look or wait")
	flags.BoolVar(&j.quiet, "quiet", false, "do not say how far a lock in the local store reaches")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *now && j.wait != 0 {
			return usagef("-n means not to wait, and --wait %v to wait; give one of them", j.wait)
		}
		j.forever = !flags.Changed("wait") && !*now
		if *shared {
			j.mode = holdfast.Shared
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
		return j.run(cmd.Context())
	}
	return cmd
}

// job is one run of a command under a lock.
type job struct {
	store    location
	resource string
	mode     holdfast.Mode
	lock     holdfast.LockOptions
	ttl      time.Duration
	wait     time.Duration // unless forever; 0: ask once
	forever  bool
	quiet    bool
	command  []string
	path     string // of the command's file
}

// parse reads the arguments, of which dash stood before the first --, and checks
// all that can be checked without a store.
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
	j.resource, j.command = args[0], args[1:]
	if err := driver.ValidResource(j.resource); err != nil {
		return usagef("%v", err)
	}
	if err := (driver.Details{Owner: j.lock.Owner, Comment: j.lock.Comment}).Validate(); err != nil {
		return usagef("%v", err)
	}
	switch {
	case j.wait < 0:
		return usagef("--wait %v is negative; 0 means not to wait", j.wait)
	case j.lock.Limit < 0:
		return usagef("--limit %d is negative", j.lock.Limit)
	case j.lock.Limit > 0 && j.mode != holdfast.Shared:
		return usagef("--limit %d needs --shared: an exclusive lock has one holder", j.lock.Limit)
	}
	j.lock.TTL = j.ttl
	return nil
}

// parseTTL reads --ttl.
func parseTTL(text string) (time.Duration, error) {
	if text == "forever" {
		return 0, errors.New("after a crash the lock would never be free again; " +
			"any TTL is renewed for as long as the command runs")
	}
	ttl, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, err
	case ttl < holdfast.MinTTL:
		return 0, fmt.Errorf("a TTL is at least %v", holdfast.MinTTL)
	case ttl > holdfast.MaxTTL:
		return 0, errors.New("a TTL is at most 100 years")
	}
	return ttl, nil
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
