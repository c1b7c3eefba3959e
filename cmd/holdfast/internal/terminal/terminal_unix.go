//go:build unix

package terminal

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Terminal is the controlling terminal of this process. Nil stands for none: its
// methods do nothing. The methods must not be called concurrently.
type Terminal struct {
	file  *os.File
	modes *term.State // when the terminal was opened
	lent  bool
	stops chan os.Signal
}

// Open returns the controlling terminal, or nil if there is none. From then on, the
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

// Close closes the terminal, which must not be lent. Its stops no longer have an
// effect.
func (t *Terminal) Close() {
	if t != nil {
		signal.Stop(t.stops)
		_ = t.file.Close()
	}
}

// Stops delivers the signals that would have stopped this process: Key (Ctrl-Z) while
// its group was in the foreground, or a signal that IsWanted if a member of its group
// tried to use the terminal from the background.
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

// Alone reports whether this process is alone in its group. Others may be members of
// a pipeline, or the shell that runs a script.
func (t *Terminal) Alone() bool { return members(syscall.Getpgrp()) <= 1 }

// Gone reports whether the terminal has hung up, as it does when its window is
// closed or the connection is cut.
func (t *Terminal) Gone() bool { return t != nil && t.front() == 0 }

// IsLeader reports whether this process leads the terminal's session. Only the leader
// gets HUP when the terminal hangs up; the foreground group gets it when the leader
// has ended.
func (t *Terminal) IsLeader() bool {
	session, err := unix.Getsid(0)
	return t != nil && err == nil && session == os.Getpid()
}

// CanLend reports whether this process may make another group the foreground group: it
// is in the foreground, and not just because its shell, which has lost sight of it, has
// not taken the terminal back yet. The shell would find it taken. In the group of the
// session's leader there is no such shell.
func (t *Terminal) CanLend() bool {
	if !t.Foreground() {
		return false
	}
	_, found := origin()
	session, err := unix.Getsid(0)
	return found || err == nil && session == syscall.Getpgrp()
}

// Lend makes the group the foreground group if it can.
func (t *Terminal) Lend(group int) {
	if t.CanLend() {
		t.lent = t.set(group)
	}
}

// Given notes that the terminal was lent to the command as it was started.
func (t *Terminal) Given() { t.lent = true }

// Lent reports whether the terminal is lent. A shell that finds its job stopped takes
// it back, too.
func (t *Terminal) Lent() bool {
	if t == nil || !t.lent {
		return false
	}
	if shell, _ := origin(); shell != 0 && t.front() == shell {
		t.lent = false
	}
	return t.lent
}

// TakeBack makes this process's group the foreground group again if the terminal is
// lent.
func (t *Terminal) TakeBack() {
	if t.Lent() {
		t.set(syscall.Getpgrp())
		t.lent = false
	}
}

// Restore restores the modes of when the terminal was opened, after a command was
// killed that may have changed them. If another job is in the foreground the modes
// are its own.
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

// CanSuspend reports whether somebody could continue this process's group if it
// stopped, such as a shell with job control. In a group without one, which POSIX
// calls orphaned, the terminal's stops have no effect.
func (t *Terminal) CanSuspend() bool {
	if t == nil || signal.Ignored(Key) {
		return false
	}
	_, found := origin()
	return found
}

// origin returns the group of the closest ancestor that is in this process's session
// but not in its group. It is 0 and found if that cannot be known.
//
// It is the same for all members of the group, because one shell starts them all.
func origin() (group int, found bool) {
	session, err := unix.Getsid(0)
	if err != nil {
		return 0, false
	}
	own := syscall.Getpgrp()
	// The parent is 0 if it is outside the container. Process 1 counts: in a container
	// it may be the shell.
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

// Suspend stops this process and, if all is set, the other members of its group, as
// the terminal would have done. It returns when this process was continued.
func (t *Terminal) Suspend(sig syscall.Signal, all bool) {
	if !IsWanted(sig) {
		sig = Key // others may catch Key to restore the terminal, but not STOP
	}
	signal.Ignore(sig) // the one for the other members
	if all {
		_ = syscall.Kill(0, sig)
	}
	stopSelf(sig)
	signal.Notify(t.stops, sig)
}

// Wake continues the members of this process's group.
func (t *Terminal) Wake() { _ = syscall.Kill(0, syscall.SIGCONT) }

// Interrupt sends the signal to this process's group, as the terminal would have
// done if it had not been lent.
func (t *Terminal) Interrupt(sig syscall.Signal) { _ = syscall.Kill(0, sig) }

// Key is the signal of Ctrl-Z, the key that stops the foreground.
const Key = syscall.SIGTSTP

// IsWanted reports whether the signal says that a process in the background tried to
// use the terminal.
func IsWanted(sig syscall.Signal) bool { return sig == syscall.SIGTTIN || sig == syscall.SIGTTOU }

// IsInterrupt reports whether the signal is that of a key that ends the foreground,
// Ctrl-C or Ctrl-\.
func IsInterrupt(sig syscall.Signal) bool { return sig == syscall.SIGINT || sig == syscall.SIGQUIT }
