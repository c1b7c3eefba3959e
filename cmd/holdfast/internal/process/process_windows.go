package process

import (
	"os"
	"os/exec"
	"syscall"
)

// Continue is not a signal: nothing is stopped here.
const Continue = syscall.Signal(-1)

var (
	forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}
	notices   []os.Signal
	named     = map[string]syscall.Signal{"TERM": syscall.SIGTERM} // which kills
)

// OutlivePipes does nothing: a write to nobody is only an error here.
func OutlivePipes() {}

// Detach gives the process that is to be started a group of its own, which Ctrl-C does not
// reach.
func Detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// Die returns: no process dies of a signal here.
func Die(syscall.Signal) {}
