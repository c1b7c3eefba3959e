package process

import (
	"os"
	"syscall"
)

// Continue is not a signal: nothing is stopped here.
const Continue = syscall.Signal(-1)

var (
	forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}
	notices   []os.Signal
	named     = map[string]syscall.Signal{"TERM": syscall.SIGTERM} // which kills
)

// Die returns: no process dies of a signal here.
func Die(syscall.Signal) {}
