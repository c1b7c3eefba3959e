//go:build unix

package process

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Continue is the signal that continues a stopped process.
const Continue = syscall.SIGCONT

var (
	forwarded = []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	}
	notices = []os.Signal{syscall.SIGWINCH, Continue}
	named   = map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	}
)

// OutlivePipes lets this process outlive the readers of its output: a write to them then
// fails, and what it runs goes on. It does not apply to what this process starts.
func OutlivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// Detach gives the process that is to be started a group of its own, which a key on the
// terminal does not reach. When its ctx ends, all of the group ends.
func Detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// Die ends this process by the signal, without a core. A shell that waits for it gets
// the same status as from the command, and ends a loop on an interrupt. Die returns
// if the process cannot die of the signal, as the first one of a container.
func Die(sig syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	signal.Reset(sig)
	noCore()
	Unhear(sig)
	if syscall.Kill(os.Getpid(), sig) == nil {
		time.Sleep(time.Second / 10) // the signal may reach another thread first
	}
}
