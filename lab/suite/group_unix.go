//go:build unix

package main

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// patience is the time that tests have to end after a signal.
var patience = 10 * time.Second

// group makes the command and its descendants end with ctx: go test starts the test binaries,
// and these start servers and commands. They get a signal, and are killed after ten seconds.
// Call ended when the command has ended.
func group(ctx context.Context, cmd *exec.Cmd) (ended func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = patience
	return func() {
		if ctx.Err() != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually nothing is left
		}
	}
}

// processorTime returns a text with the processor time of the ended commands, and of the
// descendants that they have waited for.
func processorTime() string {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		return ""
	}
	took := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	return fmt.Sprintf(", and %v of processor time without servers", took.Round(time.Second))
}
