package terminal

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// parent returns the parent of the process, if it can be known.
func parent(pid int) (int, bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, false
	}
	return int(p.Eproc.Ppid), true
}

// members returns the live members of the group, if they can be known.
func members(group int) (pids []int, known bool) {
	const dead = 5 // SZOMB of sys/proc.h
	all, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", group)
	for _, p := range all {
		if p.Proc.P_stat != dead {
			pids = append(pids, int(p.Proc.P_pid))
		}
	}
	return pids, err == nil
}

// ignores is false: it cannot be known.
func ignores(int, syscall.Signal) bool { return false }
