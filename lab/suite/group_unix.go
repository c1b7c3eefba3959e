//go:build unix

package main

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// group makes the command and all that it starts end with its context: go test
// starts the tests' binaries, and these start servers and commands. They are told
// to end, and killed ten seconds later.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
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
