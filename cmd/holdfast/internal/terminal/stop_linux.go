package terminal

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
)

// stopSelf stops this process, as the signal does to those that do not hear it. It
// returns when the process was continued, or at once if the kernel knows of nobody
// who could.
func stopSelf(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	process.Unhear(sig)
	// Sent to this very thread, it has stopped the process before Tgkill returns.
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}

// Quietly does to the terminal what a process in the background may not, such as
// to write to it after stty tostop. It would be stopped for it, with its group.
func Quietly(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, ttou unix.Sigset_t
	ttou.Val[0] = 1 << (syscall.SIGTTOU - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &ttou, &old) == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }()
	}
	do()
}
