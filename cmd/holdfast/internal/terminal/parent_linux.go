package terminal

import "github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"

// parent returns the parent of the process, 0 if it is not to be known.
func parent(pid int) int {
	p, _ := proc.Read(pid)
	return p.Parent
}
