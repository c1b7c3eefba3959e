package job

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// supervisor is what run does while its command runs: it passes signals on, sees
// to the terminal as a shell does, and has the command ended when the lock is
// lost.
//
// The command has a process group of its own, so that all of it can be ended; in
// the eyes of the shell it is a part of run's. While run is in front, one of the
// two groups has the terminal: the command's if there is nobody else in run's, and
// run's if it is a script or a pipeline, whose other members are to be in front as
// well. Whoever turns out to want it is given it.
type supervisor struct {
	*Job
	guard     *guard.Guard
	tty       *terminal.Terminal // nil: there is none
	hold      *holdfast.Hold
	signals   <-chan os.Signal
	notices   <-chan os.Signal
	unnoticed func()           // ends the notices
	front     bool             // the command is to have the terminal when run is in front
	stopped   bool             // the command is
	told      bool             // the command was told to end since it was last seen stopped
	following syscall.Signal   // run stops with this one when the command has stopped
	late      <-chan time.Time // by then run has stopped, or never will
	checking  chan bool        // whether the lock is held; nil: that is not being asked
	passed    bool             // the command was sent an interrupt that is not the terminal's
	hungUp    bool             // the command was told that the terminal is gone
	hinted    bool             // the command was told that nobody can bring it to the front
	lost      bool             // to somebody's force, or the guard had to end the command
}

// start starts the command, in the terminal's foreground if run is there.
func (a *supervisor) start() error {
	a.notices, a.unnoticed = process.Notices() // the command may count on them from its start
	now := guard.Now()                         // first, so that time that passes shortens the lease
	a.front = a.tty.Foreground() && a.tty.Alone()
	err := a.guard.Run(guard.Command{
		Path: a.path, Args: a.Command, Env: a.environment(a.hold),
		Deadline: now + a.hold.Left(), KillAfter: a.killAfter, Lenient: a.lenient,
		Foreground: a.front,
	})
	if a.front {
		a.tty.Given()
	}
	if err != nil {
		a.unnoticed()
		a.tty.TakeBack()
	}
	return err
}

// supervise returns when the command has ended.
func (a *supervisor) supervise(signals <-chan os.Signal) guard.Result {
	a.signals = signals
	defer a.unnoticed()
	lost := a.hold.Context().Done()
	for {
		select {
		case sig := <-a.signals:
			a.pass(sig)
		case sig := <-a.notices:
			if sig == process.Continue {
				a.passAll() // a shell that ends what is stopped sends a signal before
				a.continued()
			} else {
				a.guard.Signal(sig)
			}
		case sig := <-a.tty.Stops():
			a.stop(sig)
		case <-a.late:
			if a.stopped {
				a.continued()
			}
		case held := <-a.checking:
			a.resumed(held)
		case <-lost:
			lost = nil
			a.lose()
		case e := <-a.guard.Events():
			switch {
			case e.Stopped != 0:
				a.stopped = true
				a.follow(e.Stopped)
				a.told = false
			case e.Continued:
				a.stopped = false
			case e.Ended != nil:
				a.end(*e.Ended)
				return *e.Ended
			}
		}
	}
}

// pass passes on what this process was sent. What the terminal sends to the
// command's group does not come here, but for one: when a terminal hangs up, the
// kernel tells who is in front as soon as the session's leader has ended, and the
// shell tells all its jobs.
func (a *supervisor) pass(sig os.Signal) {
	if sig == syscall.SIGHUP && a.tty.Gone() {
		if a.hungUp || a.tty.Lent() && !a.tty.IsLeader() {
			return
		}
		a.hungUp = true
	}
	if number, ok := sig.(syscall.Signal); ok && terminal.IsInterrupt(number) {
		a.passed = true
	}
	a.guard.Signal(sig)
	if sig == syscall.SIGTERM || sig == syscall.SIGHUP {
		a.told = true
		if a.stopped {
			a.continued() // or it would not learn that it is to end
		}
	}
}

// passAll passes on what has come already.
func (a *supervisor) passAll() {
	for {
		select {
		case sig := <-a.signals:
			a.pass(sig)
		default:
			return
		}
	}
}

// lose has a command ended whose lock was taken away. When it is time that has
// run out the guard sees to that, and knows whether the command had ended before.
func (a *supervisor) lose() {
	why := a.lossOf(a.hold)
	if a.lenient {
		output.Say("the lock of %q was lost while %q runs: %v. It runs on, and another may run beside it", a.Resource, a.Command[0], why)
		return
	}
	if errors.Is(why, holdfast.ErrForced) {
		a.lost = true
		a.guard.End()
	}
}

// end takes the terminal back from a command that has ended.
func (a *supervisor) end(r guard.Result) {
	a.lost = a.lost || r.Cut
	if a.front && (r.Signal != 0 || r.Cut) {
		a.tty.Restore()
	}
	if !a.tty.Lent() {
		return
	}
	a.tty.TakeBack()
	a.tty.Wake() // who wanted the terminal meanwhile
	if terminal.IsInterrupt(r.Signal) && !r.Cut && !a.passed {
		// It was for the whole script or pipeline.
		a.tty.Interrupt(r.Signal)
	}
}
