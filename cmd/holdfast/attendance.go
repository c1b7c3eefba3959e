package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// attendance is what run does while its command runs: it passes signals on, sees
// to the terminal as a shell does, and has the command ended when the lock is
// lost.
type attendance struct {
	*job
	guard   *guard.Guard
	tty     *terminal.Terminal // nil: there is none
	hold    *holdfast.Hold
	stopped bool // the command is
	lost    bool // to somebody's force, or the guard had to end the command
	asking  chan bool
}

// start starts the command, in the terminal's foreground if run is there.
func (a *attendance) start() error {
	now := guard.Now() // first, so that time that passes shortens the lease
	foreground := a.tty.Foreground()
	err := a.guard.Run(guard.Command{
		Path: a.path, Args: a.command, Env: a.environment(a.hold),
		Deadline: now + a.hold.Left(), KillAfter: a.killAfter, Lenient: a.lenient,
		Foreground: foreground,
	})
	if foreground {
		a.tty.Given()
	}
	if err != nil {
		a.tty.TakeBack()
	}
	return err
}

// attend returns when the command has ended.
func (a *attendance) attend(signals, notices <-chan os.Signal) guard.Result {
	a.asking = make(chan bool, 1)
	lost := a.hold.Context().Done()
	for {
		select {
		case sig := <-signals:
			a.pass(sig)
		case sig := <-notices:
			if sig == process.Continue {
				a.resume()
			} else {
				a.guard.Signal(sig)
			}
		case held := <-a.asking:
			a.resumed(held)
		case <-lost:
			lost = nil
			a.lose()
		case e := <-a.guard.Events():
			switch {
			case e.Stopped != 0:
				a.suspend(e.Stopped)
			case e.Ended != nil:
				a.end(*e.Ended)
				return *e.Ended
			}
		}
	}
}

// pass passes on what this process was sent. What the terminal sends goes to the
// command's group and not here, but for one: a terminal that hangs up tells the
// command, and in turn the shell tells this process, or the kernel does.
func (a *attendance) pass(sig os.Signal) {
	if sig == syscall.SIGHUP && a.tty.Lent() && a.tty.Gone() {
		return
	}
	a.guard.Signal(sig)
}

// lose has a command ended whose lock was taken away. When it is time that has
// run out the guard sees to that, and knows whether the command had ended before.
func (a *attendance) lose() {
	why := lossOf(a.hold)
	if a.lenient {
		say("the lock of %q was lost while %q runs: %v. It runs on, and another may run beside it", a.resource, a.command[0], why)
		return
	}
	if errors.Is(why, holdfast.ErrForced) {
		a.lost = true
		a.guard.End()
	}
}

// lossOf is why the lock was lost.
func lossOf(hold *holdfast.Hold) error {
	if lost, ok := errors.AsType[*holdfast.LostError](context.Cause(hold.Context())); ok {
		return lost.Cause
	}
	return holdfast.ErrUnreachable // no answer came in time
}

// suspend follows a command that was stopped. From the terminal's foreground it
// takes all of run along, as whoever pressed Ctrl-Z expects. One that stopped in
// the background because it wants the terminal has to wait until somebody brings
// run to the front. Any other keeps its lock until it is continued.
func (a *attendance) suspend(sig syscall.Signal) {
	a.stopped = true
	switch {
	case !a.tty.Lent() && !terminal.IsWanted(sig):
	case a.tty.CanSuspend():
		a.tty.TakeBack()
		a.tty.Suspend(sig)
		// From here on nothing is renewed, until CONT comes.
	case a.tty.Lent() && terminal.IsKey(sig):
		// Nobody could continue it, so the key has no effect.
		a.guard.Signal(process.Continue)
		a.stopped = false
	}
}

// resume is for when this process was continued. Time has passed of which nobody
// knows how much, so the store is asked before the command runs on.
func (a *attendance) resume() {
	go func() { a.asking <- a.stillHeld() }()
}

// stillHeld asks the store until it answers or the time is up.
func (a *attendance) stillHeld() bool {
	for a.hold.Left() > 0 {
		err := a.hold.Renew(a.hold.Context(), 0)
		switch {
		case err == nil:
			extend(a.guard, a.hold)
			return true
		case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrReleased):
			return false
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-a.hold.Context().Done():
		}
	}
	return false
}

func (a *attendance) resumed(held bool) {
	if !held && !a.lenient {
		a.guard.Kill()
		return
	}
	a.tty.Lend(a.guard.Group())
	if a.stopped {
		a.stopped = false
		a.guard.Signal(process.Continue)
	}
}

// end takes the terminal back from a command that has ended.
func (a *attendance) end(r guard.Result) {
	a.lost = a.lost || r.Cut
	if r.Signal != 0 {
		a.tty.Restore()
	}
	a.tty.TakeBack()
}
