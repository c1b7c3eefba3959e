package terminal

import "golang.org/x/sys/unix"

// parent returns the parent of the process, if it can be known.
func parent(pid int) (int, bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, false
	}
	return int(p.Eproc.Ppid), true
}

// members counts the processes of the group.
func members(group int) int {
	const dead = 5 // SZOMB of sys/proc.h
	ps, _ := unix.SysctlKinfoProcSlice("kern.proc.pgrp", group)
	n := 0
	for _, p := range ps {
		if p.Proc.P_stat != dead {
			n++
		}
	}
	return n
}
