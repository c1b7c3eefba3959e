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
}

// Open returns the controlling terminal, or nil if there is none.
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
	return &Terminal{file: file, modes: modes}
}

// Close gives up the terminal, which has to be back.
func (t *Terminal) Close() {
	if t != nil {
		_ = t.file.Close()
	}
}

// Foreground reports whether this process is in the terminal's foreground.
func (t *Terminal) Foreground() bool { return t != nil && t.foreground() == syscall.Getpgrp() }

// foreground returns the foreground group, 0 if the terminal has hung up.
func (t *Terminal) foreground() int {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// Gone reports whether the terminal has hung up, as it does when its window is
// closed or the connection is cut.
func (t *Terminal) Gone() bool { return t != nil && t.foreground() == 0 }

// Lend makes the group the foreground one, if this process is in the foreground.
func (t *Terminal) Lend(group int) {
	if t.Foreground() {
		t.lent = t.set(group)
	}
}

// Given notes that the terminal was given to the command as it was started.
func (t *Terminal) Given() { t.lent = true }

// Lent reports whether the terminal is with the command.
func (t *Terminal) Lent() bool { return t != nil && t.lent }

// TakeBack makes this process's group the foreground one again, if the terminal
// was lent.
func (t *Terminal) TakeBack() {
	if t.Lent() {
		t.set(syscall.Getpgrp())
		t.lent = false
	}
}

// Restore sets the modes as they were when the terminal was opened. It is for
// when a command was killed that had changed them.
func (t *Terminal) Restore() {
	if t != nil {
		_ = quietly(func() error { return term.Restore(int(t.file.Fd()), t.modes) })
	}
}

func (t *Terminal) set(group int) bool {
	return quietly(func() error {
		return unix.IoctlSetPointerInt(int(t.file.Fd()), unix.TIOCSPGRP, group)
	}) == nil
}

// quietly does to the terminal what a process in the background may not: unless
// it ignores SIGTTOU, it is stopped for it.
func quietly(change func() error) error {
	if !signal.Ignored(syscall.SIGTTOU) {
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
	}
	return change()
}

// CanSuspend reports whether somebody would continue this process's group if it
// stopped: a shell with job control. Without one, in a group that is orphaned as
// POSIX says, the terminal's stops have no effect.
func (t *Terminal) CanSuspend() bool {
	if t == nil || signal.Ignored(syscall.SIGTSTP) {
		return false
	}
	// The group's other members are as good as all ancestors in it, for a shell
	// starts a group from one place.
	for pid := os.Getppid(); pid > 1; {
		group, err := unix.Getpgid(pid)
		session, err2 := unix.Getsid(pid)
		own, err3 := unix.Getsid(0)
		if err != nil || err2 != nil || err3 != nil || session != own {
			return false
		}
		if group != syscall.Getpgrp() {
			return true
		}
		if pid = parent(pid); pid == 0 {
			return true // not to be known here; shells are the rule
		}
	}
	return false
}

// Suspend stops this process's group, as the terminal would have done if the
// command were in it, with all others of the pipeline or script. It is continued
// with SIGCONT.
func (t *Terminal) Suspend(sig syscall.Signal) { _ = syscall.Kill(0, sig) }

// IsKey reports whether the signal is that of the key that stops the foreground.
func IsKey(sig syscall.Signal) bool { return sig == syscall.SIGTSTP }

// IsWanted reports whether the signal is that of a terminal which somebody in the
// background wants to use.
func IsWanted(sig syscall.Signal) bool { return sig == syscall.SIGTTIN || sig == syscall.SIGTTOU }
