package job

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// stop is for when run's group was to be stopped: by the key, while it was in
// front, or because another of the group wants to use the terminal.
func (a *supervisor) stop(sig os.Signal) {
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
func (a *supervisor) follow(sig syscall.Signal) {
	wanted := terminal.IsWanted(sig)
	a.front = a.front || wanted
	switch {
	case a.told:
		a.continued() // it may have stopped before it was told, and would never learn it
	case a.following != 0:
		a.suspend(a.following, false)
	case wanted && a.tty.IsFront(a.guard.Group()):
		a.resume() // it was given the terminal since
	case wanted && a.tty.Foreground():
		a.tty.Lend(a.guard.Group())
		a.resume()
	case !wanted && !a.tty.Lent():
	case a.tty.CanSuspend():
		a.tty.TakeBack()
		a.suspend(sig, true)
	case sig == terminal.Key:
		a.resume() // nobody else could, so the key has no effect
	case wanted:
		a.hint()
	}
}

// resume has the command run on.
func (a *supervisor) resume() {
	a.stopped = false // before that is heard: whatever is heard from now on comes after
	a.guard.Signal(process.Continue)
}

// suspend stops run, and with all the others of its group too, until somebody
// continues it.
func (a *supervisor) suspend(sig syscall.Signal, all bool) {
	a.following, a.checking = 0, nil
	a.passAll()
	if a.checking != nil {
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
func (a *supervisor) hint() {
	if a.hinted {
		output.Say("%q is stopped because it wants to use the terminal from the background, and keeps its lock of %q; end it with kill %d",
			a.Command[0], a.Resource, os.Getpid())
		return
	}
	a.hinted = true
	a.guard.Signal(syscall.SIGHUP)
	a.resume()
}

// continued is for when this process was continued. If the command was stopped,
// time has passed of which nobody knows how much, so the store is asked before the
// command runs on.
func (a *supervisor) continued() {
	switch {
	case !a.stopped:
		if a.front {
			a.tty.Lend(a.guard.Group()) // the shell may have had it
		}
	case a.checking == nil:
		asking := make(chan bool, 1)
		a.checking = asking
		go func() { asking <- a.stillHeld() }()
	}
}

// stillHeld asks the store until it answers or the time is up.
func (a *supervisor) stillHeld() bool {
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

func (a *supervisor) resumed(held bool) {
	a.checking = nil
	if !held && !a.lenient {
		a.guard.Kill()
		return
	}
	if a.front {
		a.tty.Lend(a.guard.Group())
	}
	a.resume()
}
