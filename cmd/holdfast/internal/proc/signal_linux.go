package proc

import (
	"errors"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signal sends the signal to the process, and never to another one that has its number
// since. The error is syscall.ESRCH if it has ended.
func (p Process) Signal(sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	switch {
	case err == nil:
		defer unix.Close(fd)
	case !errors.Is(err, unix.ESRCH): // before Linux 5.3, or forbidden
		fd = -1
	default:
		return err
	}
	// If the same process is there after its descriptor was opened, that is the process's.
	// One of another user may be hidden (hidepid), before and after.
	if now, ok := Read(p.PID); now.start != p.start || !ok && p.start != 0 {
		return unix.ESRCH
	}
	if fd < 0 {
		return syscall.Kill(p.PID, sig)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// SignalHidden sends the signal to the children of this process that proc(5) hides from it,
// as with hidepid those that are not dumpable. They are children still when their
// descriptors are open, so no other process has their numbers.
func SignalHidden(sig syscall.Signal) {
	self := os.Getpid()
	for _, pid := range children(self) {
		if _, visible := Read(pid); visible {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has just ended, or before Linux 5.3
		}
		if slices.Contains(children(self), pid) {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0) // fails if it is another user's
		}
		_ = unix.Close(fd)
	}
}
