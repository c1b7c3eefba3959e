package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Containment has what becomes of the command's processes, and what run does so that none gets
// out of its reach.
type Containment struct {
	strict     bool // refuse what could not be ended
	isolate    bool
	group      bool // all signals are for the main process's group
	children   guard.Children
	unkillable *guard.Unkillable
}

// Flags declares the flags of the containment.
func (c *Containment) Flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&c.group, "signal-group", false, "pass all signals on to the command's process group (default with -c), not to the\n"+
		"command alone")
	flags.Func("children", "when the command has ended, `wait` for all that it has started and that still runs, or\n"+
		"kill it (default: neither, unless a signal ended the command)", func(text string) error {
		switch c.children = guard.Children(text); c.children {
		case guard.WaitAll, guard.EndAll:
			return nil
		}
		return errors.New("it is wait or kill")
	})
	flags.BoolVar(&c.strict, "strict", false, "end the command if it starts what run could not end when the lock is lost, such\n"+
		"as sudo; Linux only")
	flags.BoolVar(&c.isolate, "isolate", false, "keep the command's processes in a PID namespace, so that all end with the lock and\n"+
		"with the command; Linux only")
}

// Check sets what depends on other flags, and refuses what is impossible.
func (c *Containment) Check(p Policy, script bool) error {
	c.group = c.group || script
	switch {
	case c.strict && p.lenient:
		return exit.Usagef("--strict is for commands that end with the lock; leave out --on-loss warn, which lets them run on")
	case c.isolate && p.lenient:
		return exit.Usagef("--isolate is for commands that end with the lock; leave out --on-loss warn, which lets them run on")
	case c.isolate && c.children == guard.WaitAll:
		return exit.Usagef("--isolate ends all processes with the command; leave out --children wait")
	case c.strict && !guard.Notices:
		return exit.Usagef("--strict needs Linux: elsewhere run cannot see what the command starts")
	}
	if c.isolate {
		c.children = guard.EndAll
	}
	return nil
}

// startGuard starts the guard. If that is not possible as wanted, no lock is acquired.
func (j *Job) startGuard() (*guard.Guard, error) {
	g, err := guard.Start(j.isolate)
	switch {
	case err == nil:
		return g, nil
	case j.isolate:
		return nil, exit.Errorf(exit.NotExecutable, "%q cannot be isolated, so it was not run: %v; leave out --isolate, or run it where holdfast check says that it can be used",
			j.Command[0], err)
	}
	advice := "look whether the machine has room for another process"
	if errors.Is(err, fs.ErrNotExist) { // /proc/self/exe
		advice = "mount /proc"
	}
	return nil, exit.Errorf(exit.Failed, "no guard could be started: %v; %s", err, advice)
}

// inspect tells, or with --strict refuses, that the command's file gives it the rights of
// another user.
func (j *Job) inspect() error {
	if j.lenient || j.isolate {
		return nil
	}
	uid, rights := privileges(j.path)
	switch {
	case rights == "":
	case j.strict:
		return exit.Errorf(exit.NotExecutable, "%q %s, so it might not end when the lock is lost, and --strict refuses it; %s", j.Command[0], rights, whatElse)
	case uid >= 0:
		output.Say("%q %s: if it takes on that user for good, it cannot be ended when the lock of %s is lost, and may then run beside the next holder; %s",
			j.Command[0], rights, j.Names(), whatElse)
	}
	return nil
}

// whatElse is the advice for commands that need another user's rights.
const whatElse = "run holdfast itself with those rights"

// escaped handles a process that the guard cannot end. It reports whether the command is
// not to go on.
func (j *Job) escaped(b *guard.Unkillable) bool {
	if j.unkillable != nil {
		return false // the command is being ended for another
	}
	if j.strict {
		j.unkillable = b
		output.Say("%s, and cannot be ended when the lock of %s is lost, so --strict ends %q now and waits until all of it has ended", describe(b), j.Names(), j.Command[0])
		return true
	}
	output.Say("%s: it cannot be ended when the lock of %s is lost, and may then run beside the next holder; %s", describe(b), j.Names(), whatElse)
	return false
}

// describe says what runs, and as whom.
func describe(b *guard.Unkillable) string {
	name := "a process"
	if b.Program != "" {
		name = strconv.Quote(b.Program)
	}
	as := "as another user"
	if b.UID >= 0 {
		as = "as " + userName(b.UID)
	}
	return fmt.Sprintf("%s (pid %d) runs %s", name, b.PID, as)
}

func userName(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return "user number " + number
}

// refused returns the exit for a command that --strict has ended.
func (j *Job) refused(result guard.Result) error {
	return exit.Errorf(exit.NotExecutable, "--strict has ended %q (status %d), because %s and could not have been ended when the lock is lost; %s",
		j.Command[0], result.Status(), describe(j.unkillable), whatElse)
}
