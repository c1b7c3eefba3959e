package job

// Ctrl-Z, and other signals that stop and continue run or its command. There are two
// ways in: the key stops the command's group if that is in the foreground, which
// the guard reports (follow), or else run's group (stop). Both end in suspend,
// where run itself stops. The shell continues run with CONT (continued), and the
// command goes on when the store has confirmed the lock (resumed).

import (
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// stop handles a signal that would have stopped run's group: Ctrl-Z while the
// group was in the foreground, or another member's attempt to use the terminal
// from the background.
func (s *supervisor) stop(sig syscall.Signal) {
	wanted := terminal.IsWanted(sig)
	switch {
	case wanted && (s.tty.Lent() || s.tty.Foreground()): // or run has come to the foreground since
		s.front = false
		s.tty.TakeBack()
		s.tty.Wake()
	case !s.tty.CanSuspend(sig):
		// Nobody could continue it, so the key has no effect.
	case s.stopped:
		s.suspend(sig, false)
	default:
		s.following = sig
		s.guard.SignalGroup(terminal.Key)
	}
}

// follow handles the stop of the command. If the command was in the foreground, run
// and its group stop too, as users of Ctrl-Z expect. If the command stopped because
// it uses the terminal, it gets the terminal if run is in the foreground, and else
// waits until run is brought there. Otherwise the command keeps its lock until it is
// continued.
func (s *supervisor) follow(sig syscall.Signal) {
	wanted := terminal.IsWanted(sig)
	s.front = s.front || wanted
	switch {
	case s.told:
		s.continued() // it may have stopped before the signal came, and would never see it
	case s.following != 0:
		s.suspend(s.following, false)
	case wanted && s.tty.IsFront(s.guard.Group()):
		s.resume() // it has the terminal by now
	case wanted && s.tty.CanLend():
		s.tty.Lend(s.guard.Group())
		s.resume()
	case !wanted && !s.tty.Lent():
	case s.tty.CanSuspend(sig):
		s.suspend(sig, true)
	case sig == terminal.Key:
		s.resume() // nobody else could continue it, so the key has no effect
	case wanted:
		s.hint()
	}
}

// resume continues the command.
func (s *supervisor) resume() {
	s.stopped = false // at once: the next report of a stop is a new one
	s.guard.SignalGroup(syscall.SIGCONT)
}

// suspend stops run, and if all is set the other members of its group, until
// somebody continues it.
func (s *supervisor) suspend(sig syscall.Signal, all bool) {
	s.following, s.checking = 0, nil
	s.forwardAll()
	if s.checking != nil {
		return // a signal has told the command to end
	}
	s.tty.Suspend(sig, all)
	// If the shell has just ended, the kernel does not stop a group that nobody
	// could continue, and no CONT comes.
	s.late = time.After(time.Second)
}

// hint handles a command that uses the terminal although nobody can bring it to the
// foreground: it would stay stopped forever. It gets what the kernel sends to stopped
// processes that nobody can continue, HUP and CONT, and if it stops again the user
// gets a line.
func (s *supervisor) hint() {
	if s.hinted {
		output.Say("%q is stopped because it wants to use the terminal from the background, and keeps its lock of %s; end it with kill %d",
			s.Command[0], s.Names(), os.Getpid())
		return
	}
	s.hinted = true
	s.guard.SignalGroup(syscall.SIGHUP)
	s.resume()
}

// continued handles that run was continued. If the command is stopped, an unknown
// time has passed, so the store confirms the lock before the command goes on.
func (s *supervisor) continued() {
	s.tty.Lent() // notes whether the shell has taken the terminal
	switch {
	case !s.stopped:
		s.following = 0 // the command has not stopped for it
		if s.front {
			s.tty.Lend(s.guard.Group()) // the shell may have taken it
		}
		s.guard.SignalGroup(syscall.SIGCONT) // a part of the command may have stopped
	case s.checking == nil:
		answer := make(chan bool, 1)
		s.checking = answer
		go func() { answer <- s.stillHeld() }()
	}
}

// stillHeld reports whether all locks are still held. It asks the store until it
// answers or the time of one is up.
func (s *supervisor) stillHeld() bool {
	for _, h := range s.locks {
		for h.Renew(h.Context(), 0) != nil {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-h.Context().Done(): // lost
				return false
			}
		}
	}
	s.locks.extend(s.guard)
	return s.locks.left() > 0
}

// resumed continues the command if the lock is still held, and else kills it.
func (s *supervisor) resumed(held bool) {
	s.checking = nil
	if !held && !s.lenient {
		s.guard.Kill()
		return
	}
	if s.front {
		s.tty.Lend(s.guard.Group())
	}
	s.resume()
}
