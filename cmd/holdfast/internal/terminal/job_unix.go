//go:build unix

package terminal

import (
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// isJob reports whether somebody could continue this process's group if it stopped: its
// closest ancestor in another group is in the same session, as a shell is.
func isJob() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	own := syscall.Getpgrp()
	// The parent is 0 if it is outside the container. Process 1 counts: in a container
	// it may be the shell.
	for pid := os.Getppid(); pid > 0; {
		theirs, err := unix.Getsid(pid)
		if err != nil || theirs != session {
			return false
		}
		group, err := unix.Getpgid(pid)
		if err != nil {
			return false
		}
		if group != own {
			return true
		}
		var known bool
		if pid, known = parent(pid); !known {
			return true // shells are the rule
		}
	}
	return false
}

// mayHave reports whether this process's group may have the terminal: it is a shell's
// job, or the group of the session's leader, which takes the terminal for no other.
func mayHave() bool {
	leader, err := unix.Getsid(0)
	return isJob() || err == nil && leader == syscall.Getpgrp()
}

// isCommands reports whether a foreground group is the command's: all its members are
// descendants of this process, such as the jobs of a command that is a shell. If nobody
// in it is alive, nobody but this process's group may have the terminal.
func isCommands(group int) bool {
	all, known := members(group)
	switch {
	case !known:
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
