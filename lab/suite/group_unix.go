//go:build unix

package main

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// patience is what tests have to end.
var patience = 10 * time.Second

// group makes the command and all that it starts end with its context: go test
// starts the tests' binaries, and these start servers and commands. They are told
// to end, and killed ten seconds later. The function it returns is called at the end.
func group(ctx context.Context, cmd *exec.Cmd) (ended func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = patience
	return func() {
		if ctx.Err() != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // most often nothing is left
		}
	}
}

// processorTime says how much of it the commands took that have ended, with what they
// started and waited for.
func processorTime() string {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		return ""
	}
	took := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	return fmt.Sprintf(", and %v of processor time without servers", took.Round(time.Second))
}
