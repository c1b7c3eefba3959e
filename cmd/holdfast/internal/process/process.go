// Package process runs one command beside the program that started it: it
// starts it with the program's own descriptors, passes signals on, ends it and
// says how it ended. Why a command runs or has to end is not its business.
package process

import (
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// Spec says what to run.
type Spec struct {
	// Path of the executable file. It is not searched for.
	Path string
	// Args are the arguments, Args[0] the name the command is called by.
	Args []string
	// Env is the whole environment. Of a variable that is there twice, the last
	// counts.
	Env []string
}

// Process is a command that was started. Its methods may be called concurrently.
type Process struct {
	os     *os.Process
	done   chan struct{}
	result Result // written before done is closed
}

// Start starts the command. It gets this program's stdin, stdout and stderr
// themselves: nothing is copied, so that nothing is delayed or held back and a
// grandchild that keeps them open holds up nobody.
//
// An executable file without a known format is given to sh, as execvp does.
func Start(s Spec) (*Process, error) {
	started, err := start(s, &os.ProcAttr{
		Env:   (&exec.Cmd{Env: s.Env}).Environ(), // each variable once
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return nil, err
	}
	p := &Process{os: started, done: make(chan struct{})}
	go func() {
		state, err := started.Wait()
		if err != nil {
			p.result = Result{Err: err}
		} else {
			p.result = resultOf(state)
		}
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the command and says how it ended.
func (p *Process) Wait() Result {
	<-p.done
	return p.result
}

// Signal passes the signal on. A command that has ended needs none.
func (p *Process) Signal(sig os.Signal) { p.send(sig) }

// Terminate asks the command to end, and kills it if it has not done so within
// the grace. It returns when the command has ended.
func (p *Process) Terminate(grace time.Duration) Result {
	p.ask()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.os.Kill() // fails only if the command has just ended
	}
	return p.Wait()
}

// Signals delivers what a command is to be told of, until stop is called. A
// signal that this program was started to ignore, as nohup and a shell's
// background jobs do, stays ignored, for the command too.
func Signals() (received <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 8)
	for _, sig := range forwarded {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	return c, func() { signal.Stop(c) }
}
