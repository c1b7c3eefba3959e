package job

import (
	"errors"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
	"github.com/holdfast-go/holdfast/driver"
)

// Policy has what run does when the lock is lost or others wait for it, and how long it
// keeps a lock at least.
type Policy struct {
	killAfter time.Duration
	lenient   bool // when the lock is lost, warn and let the command run on
	lostExit  int
	lostGiven func() bool // whether --lost-exit was given
	atLeast   time.Duration
	most      time.Duration  // how long the command may run; 0: without an end
	onWanted  syscall.Signal // what the command gets once others wait; 0: nothing
}

// Flags declares the flags of the policy.
func (p *Policy) Flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	span.Var(flags, &p.killAfter, "kill-after", 0, "the `duration` between TERM and KILL when the lock is lost; the command gets\n"+
		"TERM that long before another client could get its lock (default a sixth of the TTL, at most 5s)")
	p.lostExit = exit.Lost
	flags.Var(exit.Status{To: &p.lostExit, Least: 1}, "lost-exit", "the exit `status` when the lock was lost; with --on-loss warn, if the\n"+
		"command succeeded, and only if this flag is given")
	p.lostGiven = func() bool { return flags.Changed("lost-exit") }
	flags.Func("on-loss", "when the lock is lost, `kill` the command, or warn and let it run on (default kill)", func(text string) error {
		switch text {
		case "kill", "warn":
			p.lenient = text == "warn"
			return nil
		}
		return errors.New("it is kill or warn")
	})
	span.Var(flags, &p.atLeast, "at-least", 0, "keep the resource locked for that `duration` from the grant, even if the command\n"+
		"ends earlier; run does not wait for it")
	span.Var(flags, &p.most, "max-runtime", 0, "end the command, as when the lock is lost, once it has run for that `duration`;\n"+
		"the exit status is then 124 (default no limit)")
	flags.Func("on-wanted", "send the command this `signal`, such as TERM, once others wait for the lock; run\n"+
		"learns of them when it renews (default none)", func(text string) (err error) {
		p.onWanted, err = process.Named(text)
		return err
	})
}

// Check sets the defaults for a lock with that TTL, and refuses what is impossible.
func (p *Policy) Check(ttl time.Duration) error {
	if p.killAfter == 0 {
		p.killAfter = min(5*time.Second, ttl/6)
	}
	margin := driver.DefaultMargin(ttl)
	switch {
	case p.killAfter < 0:
		return exit.Usagef("--kill-after %v is negative", p.killAfter)
	case p.killAfter >= 2*ttl/3-margin:
		// Renewal begins at a third of the TTL, and needs the time after that.
		return exit.Usagef("--kill-after %v leaves no time to renew a lock with a --ttl of %v: it must be below %v",
			p.killAfter, ttl, 2*ttl/3-margin)
	case p.most < 0:
		return exit.Usagef("--max-runtime %v is negative", p.most)
	case p.atLeast < 0 || p.atLeast > holdfast.MaxTTL:
		return exit.Usagef("--at-least %v is not between 0 and 100 years", p.atLeast)
	}
	return nil
}
