package terminal

import "github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"

// parent returns the parent of the process, if it can be known. It is 0 if the
// parent is outside the container.
func parent(pid int) (int, bool) {
	p, ok := proc.Read(pid)
	return p.Parent, ok
}

// members counts the processes of the group.
func members(group int) int { return len(proc.Members(group)) }
