package process

import (
	"os"
	"syscall"
)

var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}

func start(s Spec, attr *os.ProcAttr) (*os.Process, error) {
	return os.StartProcess(s.Path, s.Args, attr)
}

// send has little to do: the console tells the command of an interrupt itself,
// and there is no other signal than to kill.
func (p *Process) send(sig os.Signal) {
	if sig != os.Interrupt {
		p.ask()
	}
}

func (p *Process) ask() { _ = p.os.Kill() }

func resultOf(state *os.ProcessState) Result { return Result{Code: state.ExitCode()} }
