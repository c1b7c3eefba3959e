package job

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/acquire"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// supervisor works while the command runs: it forwards signals, shares the terminal
// as a shell does, and makes the guard end the command when the lock is lost.
//
// The command has a process group of its own, so that all of it can be ended. To
// the shell it is part of run's group. While run is in the foreground, one of the
// two groups has the terminal: the command's if run is alone in its group, and
// run's in a script or a pipeline, whose other members belong in the foreground
// too. A group that then tries to use the terminal gets it.
type supervisor struct {
	*Job
	guard     *guard.Guard
	tty       *terminal.Terminal // nil: there is none
	locks     locks
	granted   time.Duration // when the lock was granted, on the clock of guard.Now
	signals   <-chan os.Signal
	notices   <-chan os.Signal
	unnotice  func()           // ends the notices
	front     bool             // the command gets the terminal when run is in the foreground
	stopped   bool             // the command is stopped
	told      bool             // a signal to end was sent to the command since it was last seen stopped
	following syscall.Signal   // what stops run when the command has stopped; 0: nothing
	late      <-chan time.Time // when it fires, run has stopped or never will
	checking  chan bool        // whether the lock is still held; nil: the store is not being asked
	forwarded bool             // the command was sent an interrupt that did not come from the terminal
	hungUp    bool             // the command got HUP because the terminal is gone
	lent      bool             // the command had the terminal when its main process ended
	hinted    bool             // the command got HUP because nobody can bring it to the foreground
	main      *guard.Result    // how the main process ended, if run waits for the others; nil: it lives
	tellRest  <-chan time.Time // when it fires, what run waits for is to be told
	lost      bool             // by a forced release, the guard had to end the command, or it runs on
	overtime  bool             // the command was ended because it ran for too long
}

// start starts the command, in the foreground if run is there.
func (s *supervisor) start() error {
	s.notices, s.unnotice = process.Notices() // from here on, because the command may rely on them from its start
	now := guard.Now()                        // read first, so that time that passes shortens the lease
	// In this order, or the last other member, which makes the group a job, could end
	// between the questions.
	s.front = s.tty.Foreground() && s.tty.Alone() && s.tty.CanLend()
	successor, err := s.successor(s.locks, s.granted)
	if err != nil {
		return err
	}
	deadline := now + s.locks.left()
	if s.lenient {
		deadline = guard.Never
	}
	err = s.guard.Run(guard.Command{
		Path: s.path, Args: s.Command, Env: s.environment(s.locks), PIDVariables: ownPIDs(),
		Deadline: deadline, KillAfter: s.killAfter,
		Foreground: s.front, Children: s.children, Successor: successor,
	})
	if s.front {
		s.tty.Given(s.guard.Group())
	}
	if err != nil {
		s.unnotice()
		s.tty.TakeBack()
	}
	return err
}

// ownPIDs returns the variables of systemd's sockets and watchdog that name this process. They
// are to name the command, which ignores them otherwise.
func ownPIDs() []string {
	return slices.DeleteFunc([]string{"LISTEN_PID", "WATCHDOG_PID"}, func(name string) bool {
		return os.Getenv(name) != strconv.Itoa(os.Getpid())
	})
}

// supervise handles signals, stops of the terminal, the loss of the lock and news
// of the command until the command has ended, with all that run waits for.
func (s *supervisor) supervise(signals <-chan os.Signal) guard.Result {
	s.signals = signals
	defer s.unnotice()
	lost := s.locks.losses()
	var wanted <-chan *holdfast.Hold // nil: the command is not to be told
	if s.onWanted != 0 {
		wanted = s.locks.wanted()
	}
	var overtime <-chan time.Time // nil: the command may run without an end
	if s.most > 0 {
		timer := time.NewTimer(s.most)
		defer timer.Stop()
		overtime = timer.C
	}
	for {
		select {
		case sig := <-s.signals:
			s.forward(sig.(syscall.Signal))
		case sig := <-s.notices:
			if sig == syscall.SIGCONT {
				s.forwardAll() // a shell that ends a stopped job sends TERM or HUP before CONT
				s.continued()
			} else {
				s.guard.SignalGroup(sig.(syscall.Signal))
			}
		case sig := <-s.tty.Stops():
			if sig := sig.(syscall.Signal); s.main == nil || terminal.IsWanted(sig) {
				s.stop(sig)
			}
		case <-s.late:
			if s.stopped {
				s.continued()
			}
		case held := <-s.checking:
			s.resumed(held)
		case <-lost:
			lost = nil
			if s.lose(); s.main != nil && s.lenient {
				return *s.main
			}
		case <-overtime:
			// If the guard ends the command for its lock, it is not for the time.
			s.overtime = s.lenient || !s.lost && s.locks.left() > s.killAfter
			s.guard.End()
			if s.stopped {
				s.continued() // a stopped command does not see TERM
			}
		case <-s.tellRest:
			s.sayRest()
			s.tellRest = time.After(time.Minute)
		case h := <-wanted:
			wanted = nil
			if s.main == nil {
				s.SayWanted(h, s.Command[0], s.onWanted)
				s.forward(s.onWanted)
			}
		case e := <-s.guard.Events():
			switch {
			case e.Unkillable != nil:
				s.sayUnkillable(e.Unkillable)
			case e.Stopped != 0:
				s.stopped = true
				s.follow(e.Stopped)
				s.told = false
			case e.Continued:
				s.stopped = false
			case e.MainEnded != nil:
				s.main, s.tellRest = e.MainEnded, time.After(time.Second)
				s.takeBack(*s.main)
				s.front, s.stopped = false, false
				if s.lenient && s.lost {
					return *s.main // there is no lock to wait with
				}
			case e.Ended != nil:
				s.end(*e.Ended)
				return *e.Ended
			}
		}
	}
}

// forward sends the command a signal that this process received: to its main process, or to
// its group if it comes from a key. Signals that the terminal sends to the command's group do
// not arrive here. HUP is the exception: when a terminal hangs up, the kernel sends it to the
// foreground group once the session's leader has ended, and the shell sends it to all its jobs.
// The command gets it once.
func (s *supervisor) forward(sig syscall.Signal) {
	hangup := sig == syscall.SIGHUP && s.tty.Gone()
	if hangup && s.main == nil {
		if s.hungUp {
			return
		}
		if s.tty.HasTold() {
			s.guard.Noted(syscall.SIGHUP)
			return
		}
		s.hungUp = true
	}
	s.forwarded = s.forwarded || terminal.IsInterrupt(sig)
	if s.group || hangup || terminal.IsInterrupt(sig) {
		s.guard.SignalGroup(sig)
	} else {
		s.guard.Signal(sig)
	}
	if sig == syscall.SIGTERM || sig == syscall.SIGHUP {
		s.told = true
		if s.stopped {
			s.continued() // a stopped command does not see the signal
		}
	}
}

// forwardAll forwards the signals that have arrived already.
func (s *supervisor) forwardAll() {
	for {
		select {
		case sig := <-s.signals:
			s.forward(sig.(syscall.Signal))
		default:
			return
		}
	}
}

// lose ends the command if its lock was released by force. If the time ran out, the
// guard ends the command, unless that had ended before.
func (s *supervisor) lose() {
	hold := s.locks.lost()
	why := s.lossOf(hold)
	s.Hooks.loss(why, s.description(s.locks))
	if s.lenient {
		what := fmt.Sprintf("%q", s.Command[0])
		if s.lost = s.main == nil; !s.lost {
			what = "what " + what + " has left"
		}
		output.SayEvent("lost", acquire.LockAttrs(hold), "the lock of %q was lost while %s runs: %v. It runs on, and another holder may run beside it",
			hold.Resource(), what, why)
		return
	}
	if errors.Is(why, holdfast.ErrForced) {
		s.lost = true
		s.guard.End()
	}
}

// end notes whether the command was ended for a lost lock, and takes the terminal back.
func (s *supervisor) end(r guard.Result) {
	s.lost = s.lost || r.Cut && (!s.overtime || s.locks.left() <= 0) // what --max-runtime ends is cut, too
	if s.takeBack(r); s.lent && terminal.IsInterrupt(r.Signal) && !r.Cut && !s.forwarded {
		// The key was meant for the whole script or pipeline.
		s.tty.Interrupt(r.Signal)
	}
}

// takeBack takes the terminal back after the main process has ended.
func (s *supervisor) takeBack(r guard.Result) {
	if s.front && (r.Signal != 0 || r.Cut) {
		s.tty.Restore()
	}
	if s.tty.Lent() {
		s.lent = true
		s.tty.TakeBack()
		s.tty.Wake() // members of the group may have stopped for the terminal
	}
}

// sayRest tells what run waits for, after the main process has ended.
func (s *supervisor) sayRest() {
	living := s.guard.Living(true)
	if living == "" { // it is just ending
		return
	}
	next := "TERM or Ctrl-C sends it TERM, and once more KILL"
	if s.children == guard.EndAll || s.main.Signal != 0 && !process.Ends(s.main.Signal) {
		next = fmt.Sprintf("it got TERM, and gets KILL after %v", s.killAfter)
	}
	s.Inform("%q has ended with status %d. The lock of %s is held until what it has left has ended: %s; %s",
		s.Command[0], s.main.Status(), s.Names(), living, next)
}
