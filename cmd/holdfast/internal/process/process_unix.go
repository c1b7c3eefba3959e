//go:build unix

package process

import (
	"errors"
	"os"
	"syscall"
)

var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

func start(s Spec, attr *os.ProcAttr) (*os.Process, error) {
	p, err := os.StartProcess(s.Path, s.Args, attr)
	if errors.Is(err, syscall.ENOEXEC) {
		// A script without a first line that names its interpreter.
		const shell = "/bin/sh"
		return os.StartProcess(shell, append([]string{shell, s.Path}, s.Args[1:]...), attr)
	}
	return p, err
}

func (p *Process) send(sig os.Signal) {
	_ = p.os.Signal(sig) // fails only if the command has just ended
}

func (p *Process) ask() { p.send(syscall.SIGTERM) }

func resultOf(state *os.ProcessState) Result {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Result{Signal: status.Signal()}
	}
	return Result{Code: state.ExitCode()}
}
