//go:build unix

package main

import (
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
