package terminal

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// isJob reports whether somebody could continue this process's group if it stopped: a
// live member has its parent in the same session but in another group, as the job of a
// shell has. The kernel does not stop other groups, which POSIX calls orphaned. The
// member may be another process than this one, whose parent may have ended.
func isJob() bool {
	own := syscall.Getpgrp()
	if own == 0 {
		return false // the group is outside the PID namespace, and so is its shell
	}
	isShell := func(pid int) bool {
		group, err := unix.Getpgid(pid)
		return inSession(pid) && err == nil && group != own
	}
	if isShell(os.Getppid()) {
		return true // without a look at all processes
	}
	all, known := members(own)
	if !known {
		return inSession(os.Getppid()) // shells are the rule
	}
	return slices.ContainsFunc(all, func(pid int) bool {
		parent, ok := parent(pid)
		return ok && isShell(parent)
	})
}

// inSession reports whether the process is in the session of this one.
func inSession(pid int) bool {
	own, err := unix.Getsid(0)
	if err != nil || pid == 0 { // a parent outside the container is 0
		return false
	}
	session, err := unix.Getsid(pid)
	return err == nil && session == own
}

// mayHave reports whether this process's group may have the terminal: it is a shell's
// job, or the group of the session's leader, and this process is not abandoned.
func mayHave() bool {
	own := syscall.Getpgrp()
	leader, err := unix.Getsid(0)
	return own != 0 && !isAbandoned() && (err == nil && leader == own || isJob())
}

// isAbandoned reports whether this process is in the group of a shell with job control,
// which ignores TTOU, that does not wait for it. A shell waits for its substitutions, but
// not for what they leave behind, nor for what it starts with & after set +m. Such a process
// ignores INT.
func isAbandoned() bool {
	own := syscall.Getpgrp()
	return own != 0 && own != os.Getpid() && ignores(own, syscall.SIGTTOU) &&
		(signal.Ignored(os.Interrupt) || !descends(os.Getpid(), own))
}

// isCommands reports whether a foreground group is the command's: all its members are
// descendants of this process, such as the jobs of a command that is a shell. If nobody
// in it is alive, nobody but this process's group may have the terminal.
func isCommands(group int) bool {
	all, known := members(group)
	switch {
	case !known, group == 0: // 0 is outside the PID namespace
		return false
	case len(all) == 0:
		return mayHave()
	}
	return !slices.ContainsFunc(all, func(pid int) bool { return !descends(pid, os.Getpid()) })
}

// descends reports whether the process is the other one or its descendant.
func descends(pid, from int) bool {
	for pid != from && pid != 0 {
		var ok bool
		if pid, ok = parent(pid); !ok {
			return false
		}
	}
	return pid == from
}
