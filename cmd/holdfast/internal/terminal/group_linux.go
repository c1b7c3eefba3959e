package terminal

import (
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

// parent returns the parent of the process, if it can be known. It is 0 if the
// parent is outside the container.
func parent(pid int) (int, bool) {
	p, ok := proc.Read(pid)
	return p.Parent, ok
}

// members returns the live members of the group, if they can be known.
func members(group int) (pids []int, known bool) {
	for _, p := range proc.Members(group) {
		pids = append(pids, p.PID)
	}
	return pids, proc.Known()
}

// ignores reports whether the process, 0 for this one, ignores the signal.
func ignores(pid int, sig syscall.Signal) bool { return proc.Ignores(pid, sig) }
