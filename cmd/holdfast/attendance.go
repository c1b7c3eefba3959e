package main

import (
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
//
// The command has a process group of its own, so that all of it can be ended; in
// the eyes of the shell it is a part of run's. While run is in front, one of the
// two groups has the terminal: the command's if there is nobody else in run's, and
// run's if it is a script or a pipeline, whose other members are to be in front as
// well. Whoever turns out to want it is given it.
type attendance struct {
	*job
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
	asking    chan bool        // whether the lock is held; nil: that is not being asked
	passed    bool             // the command was sent an interrupt that is not the terminal's
	hungUp    bool             // the command was told that the terminal is gone
	hinted    bool             // the command was told that nobody can bring it to the front
	lost      bool             // to somebody's force, or the guard had to end the command
}

// start starts the command, in the terminal's foreground if run is there.
func (a *attendance) start() error {
	a.notices, a.unnoticed = process.Notices() // the command may count on them from its start
	now := guard.Now()                         // first, so that time that passes shortens the lease
	a.front = a.tty.Foreground() && a.tty.Alone()
	err := a.guard.Run(guard.Command{
		Path: a.path, Args: a.command, Env: a.environment(a.hold),
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

// attend returns when the command has ended.
func (a *attendance) attend(signals <-chan os.Signal) guard.Result {
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
		case held := <-a.asking:
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
func (a *attendance) pass(sig os.Signal) {
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
func (a *attendance) passAll() {
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
func (a *attendance) lose() {
	why := a.lossOf(a.hold)
	if a.lenient {
		say("the lock of %q was lost while %q runs: %v. It runs on, and another may run beside it", a.resource, a.command[0], why)
		return
	}
	if errors.Is(why, holdfast.ErrForced) {
		a.lost = true
		a.guard.End()
	}
}

// stop is for when run's group was to be stopped: by the key, while it was in
// front, or because another of the group wants to use the terminal.
func (a *attendance) stop(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	wanted := ok && terminal.IsWanted(number)
	switch {
	case wanted && (a.tty.Lent() || a.tty.Foreground()): // or it has come to the front since
		a.front = false
		a.tty.TakeBack()
		a.tty.Wake()
	case !a.tty.CanSuspend():
		// Nobody could continue it, so the key has no effect.
	case a.stopped:
		a.suspend(number, false)
	default:
		a.following = number
		a.guard.Signal(terminal.Key)
	}
}

// follow follows a command that was stopped. From the terminal's foreground it
// takes all of run along, as whoever pressed Ctrl-Z expects. One that wants the
// terminal gets it if run is in front, and else has to wait until somebody brings
// run there. Any other keeps its lock until it is continued.
func (a *attendance) follow(sig syscall.Signal) {
	wanted := terminal.IsWanted(sig)
	a.front = a.front || wanted
	switch {
	case a.told:
		a.continued() // it may have stopped before it was told, and would never learn it
	case a.following != 0:
		a.suspend(a.following, false)
	case wanted && a.tty.IsFront(a.guard.Group()):
		a.cont() // it was given the terminal since
	case wanted && a.tty.Foreground():
		a.tty.Lend(a.guard.Group())
		a.cont()
	case !wanted && !a.tty.Lent():
	case a.tty.CanSuspend():
		a.tty.TakeBack()
		a.suspend(sig, true)
	case sig == terminal.Key:
		a.cont() // nobody else could, so the key has no effect
	case wanted:
		a.hint()
	}
}

// cont has the command run on.
func (a *attendance) cont() {
	a.stopped = false // before that is heard: whatever is heard from now on comes after
	a.guard.Signal(process.Continue)
}

// suspend stops run, and with all the others of its group too, until somebody
// continues it.
func (a *attendance) suspend(sig syscall.Signal, all bool) {
	a.following, a.asking = 0, nil
	a.passAll()
	if a.asking != nil {
		return // the command is to end
	}
	a.tty.Suspend(sig, all)
	// If the shell has ended just now, the kernel does not stop what nobody could
	// continue.
	a.late = time.After(time.Second)
}

// hint is for a command that wants the terminal when nobody can bring it to the
// front, which would stop it for ever. If the kernel knew, it would refuse the
// command the terminal; what it does to those it finds stopped is to hang up.
func (a *attendance) hint() {
	if a.hinted {
		say("%q is stopped because it wants to use the terminal from the background, and keeps its lock of %q; end it with kill %d",
			a.command[0], a.resource, os.Getpid())
		return
	}
	a.hinted = true
	a.guard.Signal(syscall.SIGHUP)
	a.cont()
}

// continued is for when this process was continued. If the command was stopped,
// time has passed of which nobody knows how much, so the store is asked before the
// command runs on.
func (a *attendance) continued() {
	switch {
	case !a.stopped:
		if a.front {
			a.tty.Lend(a.guard.Group()) // the shell may have had it
		}
	case a.asking == nil:
		asking := make(chan bool, 1)
		a.asking = asking
		go func() { asking <- a.stillHeld() }()
	}
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
	a.asking = nil
	if !held && !a.lenient {
		a.guard.Kill()
		return
	}
	if a.front {
		a.tty.Lend(a.guard.Group())
	}
	a.cont()
}

// end takes the terminal back from a command that has ended.
func (a *attendance) end(r guard.Result) {
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
