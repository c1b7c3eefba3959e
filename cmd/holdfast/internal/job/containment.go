package job

import (
	"errors"
	"io/fs"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// Containment has what becomes of the command's processes.
type Containment struct {
	isolate  bool
	group    bool // all signals are for the main process's group
	children guard.Children
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
	flags.BoolVar(&c.isolate, "isolate", false, "keep the command's processes in a PID namespace, so that all end with the lock and\n"+
		"with the command; Linux only")
}

// Check sets what depends on other flags, and refuses what is impossible.
func (c *Containment) Check(p Policy, script bool) error {
	c.group = c.group || script
	switch {
	case !c.isolate:
		return nil
	case p.lenient:
		return exit.Usagef("--isolate is for commands that end with the lock; leave out --on-loss warn, which lets them run on")
	case c.children == guard.WaitAll:
		return exit.Usagef("--isolate ends all processes with the command; leave out --children wait")
	}
	c.children = guard.EndAll
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

// sayUnkillable tells of a process that the guard cannot end.
func (j *Job) sayUnkillable(b *guard.Unkillable) {
	name, as := "a process", "as another user"
	if b.Program != "" {
		name = strconv.Quote(b.Program)
	}
	if b.UID >= 0 {
		as = "as user number " + strconv.Itoa(b.UID)
		if u, err := user.LookupId(strconv.Itoa(b.UID)); err == nil {
			as = "as " + u.Username
		}
	}
	output.Say("%s (pid %d) runs %s: it cannot be ended when the lock of %s is lost, and may then run beside the next holder; run holdfast itself with those rights",
		name, b.PID, as, j.Names())
}
