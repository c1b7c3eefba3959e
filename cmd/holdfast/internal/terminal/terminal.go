// Package terminal gives the terminal to the process group of a command and takes it
// back, as shells do for their jobs, so that the command can read it and gets its
// signals. Package job decides when.
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
	file    *os.File
	modes   *term.State // when the terminal was opened
	lent    bool        // see Lent
	to      int         // the group that it was lent to
	keyless bool        // Key was ignored when this program started
	stops   chan os.Signal
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
	t := &Terminal{file: file, modes: modes, keyless: ignores(0, Key), stops: make(chan os.Signal, 8)}
	signal.Notify(t.stops, syscall.SIGTTIN, syscall.SIGTTOU)
	if !t.keyless {
		signal.Notify(t.stops, Key)
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

// IsFront reports whether the group is in the terminal's foreground. 0 stands for any
// group outside this process's PID namespace.
func (t *Terminal) IsFront(group int) bool { return t != nil && group != 0 && t.front() == group }

// front returns the foreground group, or gone.
func (t *Terminal) front() int {
	group, err := unix.IoctlGetInt(int(t.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return gone
	}
	return group
}

// gone stands for the foreground group of a terminal that has hung up.
const gone = -1

// Alone reports whether this process is alone in its group. Others may be members of
// a pipeline, or the shell that runs a script.
func (t *Terminal) Alone() bool {
	all, _ := members(syscall.Getpgrp())
	return len(all) <= 1
}

// Gone reports whether the terminal has hung up, as it does when its window is
// closed or the connection is cut.
func (t *Terminal) Gone() bool { return t != nil && t.front() == gone }

// CanLend reports whether this process may make another group the foreground group: its
// own is in the foreground, and not just because a shell that has lost sight of it has
// not taken the terminal back yet. The shell would find it taken.
func (t *Terminal) CanLend() bool { return t.Foreground() && mayHave() }

// Lend makes the group the foreground group if it can.
func (t *Terminal) Lend(group int) {
	if t.CanLend() {
		t.lent, t.to = t.set(group), group
	}
}

// Given notes that the terminal was lent to the command's group, or 0 if it is not
// known, as the command was started.
func (t *Terminal) Given(group int) { t.lent, t.to = true, group }

// Lent reports whether the terminal is lent, and still the command's. A shell that finds
// its job stopped or ended takes it back, too, and gives it to another.
func (t *Terminal) Lent() bool {
	if t == nil || !t.lent {
		return false
	}
	if front := t.front(); front != t.to && front != gone {
		t.lent = isCommands(front)
	}
	return t.lent
}

// HasTold reports whether the terminal, which is Gone, has told the command's group by HUP:
// it was lent, and not to a shell whose job may have been in the foreground instead. Only the
// session's leader gets HUP when the terminal hangs up; the foreground group gets it when that
// has ended.
func (t *Terminal) HasTold() bool {
	leader, err := unix.Getsid(0)
	return t.Lent() && (err != nil || leader != os.Getpid()) && !ignores(t.to, syscall.SIGTTOU)
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

// CanSuspend reports whether Suspend may stop this process's group for the signal:
// somebody could continue it, such as a shell with job control, and Key was not ignored
// when this program started. A shell ignores Key for the processes in its own group, so
// it would not notice that they have stopped; nor would it if they are left behind.
func (t *Terminal) CanSuspend(sig syscall.Signal) bool {
	return t != nil && (IsWanted(sig) || !t.keyless) && isJob() && !isAbandoned()
}

// Suspend stops this process and, if all is set, the other members of its group, as
// the terminal would have done. It takes the terminal back first. It returns when this
// process was continued.
func (t *Terminal) Suspend(sig syscall.Signal, all bool) {
	t.TakeBack()
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
