//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Terminal is the controlling terminal of this process. The methods of nil do
// nothing: there may be none. They are not to be called concurrently.
type Terminal struct {
	file  *os.File
	modes *term.State // as they were when it was opened
	lent  bool
	stops chan os.Signal
}

// Open returns the controlling terminal, or nil if there is none. From here on the
// terminal's stops do not stop this process: Stops delivers them.
func Open() *Terminal {
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	modes, err := term.GetState(int(file.Fd()))
	if err != nil {
		_ = file.Close()
		return nil
	}
	t := &Terminal{file: file, modes: modes, stops: make(chan os.Signal, 8)}
	for _, sig := range []os.Signal{Key, syscall.SIGTTIN, syscall.SIGTTOU} {
		if !signal.Ignored(sig) {
			signal.Notify(t.stops, sig)
		}
	}
	return t
}

// Close gives up the terminal, which has to be back. Its stops have no effect any
// more.
func (t *Terminal) Close() {
	if t != nil {
		signal.Stop(t.stops)
		_ = t.file.Close()
	}
}

// Stops delivers the signals that were to stop this process: the one of the Key if
// its group was in front, or one that IsWanted if a process of its group wants to
// use the terminal and was not in front.
func (t *Terminal) Stops() <-chan os.Signal {
	if t == nil {
		return nil
	}
	return t.stops
}

// Foreground reports whether this process's group is in the terminal's foreground.
func (t *Terminal) Foreground() bool { return t.IsFront(syscall.Getpgrp()) }

// IsFront reports whether the group is in the terminal's foreground.
func (t *Terminal) IsFront(group int) bool { return t != nil && t.front() == group }

// front returns the foreground group, 0 if the terminal has hung up.
func (t *Terminal) front() int {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// Alone reports whether this process's group has no other member, such as those of
// a pipeline, or the shell that runs a script.
func (t *Terminal) Alone() bool { return members(syscall.Getpgrp()) <= 1 }

// Gone reports whether the terminal has hung up, as it does when its window is
// closed or the connection is cut.
func (t *Terminal) Gone() bool { return t != nil && t.front() == 0 }

// IsLeader reports whether this process leads the terminal's session: it alone is
// told when the terminal hangs up, and who is in front when it has ended.
func (t *Terminal) IsLeader() bool {
	session, err := unix.Getsid(0)
	return t != nil && err == nil && session == os.Getpid()
}

// Lend makes the group the foreground one, if this process is in the foreground.
func (t *Terminal) Lend(group int) {
	if t.Foreground() {
		t.lent = t.set(group)
	}
}

// Given notes that the terminal was lent to the command as it was started.
func (t *Terminal) Given() { t.lent = true }

// Lent reports whether the terminal was lent and not taken back since, neither by
// this process nor by the shell, as it does when its job is stopped.
func (t *Terminal) Lent() bool {
	if t == nil || !t.lent {
		return false
	}
	if shell, _ := origin(); shell != 0 && t.front() == shell {
		t.lent = false
	}
	return t.lent
}

// TakeBack makes this process's group the foreground one again, if the terminal is
// lent.
func (t *Terminal) TakeBack() {
	if t.Lent() {
		t.set(syscall.Getpgrp())
		t.lent = false
	}
}

// Restore sets the modes as they were when the terminal was opened. It is for
// when a command was killed that had changed them. If somebody else is in front
// the modes are theirs.
func (t *Terminal) Restore() {
	if t.Lent() || t.Foreground() {
		Quietly(func() { _ = term.Restore(int(t.file.Fd()), t.modes) })
	}
}

func (t *Terminal) set(group int) (done bool) {
	Quietly(func() {
		done = unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group) == nil
	})
	return done
}

// CanSuspend reports whether somebody would continue this process's group if it
// stopped: a shell with job control. Without one, in a group that is orphaned as
// POSIX says, the terminal's stops have no effect.
func (t *Terminal) CanSuspend() bool {
	if t == nil || signal.Ignored(Key) {
		return false
	}
	_, found := origin()
	return found
}

// origin returns the group of the closest ancestor that is not in this process's
// group but in its session. It is found but 0 if that cannot be known.
//
// All members of a group have the same one, for a shell starts a group from one
// place.
func origin() (group int, found bool) {
	session, err := unix.Getsid(0)
	if err != nil {
		return 0, false
	}
	own := syscall.Getpgrp()
	// The parent is 0 if it is outside of the container; and the first process of
	// one may well be the shell.
	for pid := os.Getppid(); pid > 0; {
		theirs, err := unix.Getsid(pid)
		if err != nil || theirs != session {
			return 0, false
		}
		group, err := unix.Getpgid(pid)
		if err != nil {
			return 0, false
		}
		if group != own {
			return group, true
		}
		var known bool
		if pid, known = parent(pid); !known {
			return 0, true // shells are the rule
		}
	}
	return 0, false
}

// Suspend stops this process and, with all, all others of its group, as the
// terminal would have done. It returns when it was continued.
func (t *Terminal) Suspend(sig syscall.Signal, all bool) {
	if !IsWanted(sig) {
		sig = Key // so that the others can tidy up
	}
	signal.Ignore(sig) // what is for the others
	if all {
		_ = syscall.Kill(0, sig)
	}
	stopSelf(sig)
	signal.Notify(t.stops, sig)
}

// Wake continues the others of this process's group.
func (t *Terminal) Wake() { _ = syscall.Kill(0, syscall.SIGCONT) }

// Interrupt sends the signal to this process's group, as the terminal would have
// done if it had not been lent.
func (t *Terminal) Interrupt(sig syscall.Signal) { _ = syscall.Kill(0, sig) }

// Key is the signal of the key that stops the foreground, Ctrl-Z.
const Key = syscall.SIGTSTP

// IsWanted reports whether the signal is that of a terminal which somebody in the
// background wants to use.
func IsWanted(sig syscall.Signal) bool { return sig == syscall.SIGTTIN || sig == syscall.SIGTTOU }

// IsInterrupt reports whether the signal is that of a key that ends the
// foreground.
func IsInterrupt(sig syscall.Signal) bool { return sig == syscall.SIGINT || sig == syscall.SIGQUIT }
