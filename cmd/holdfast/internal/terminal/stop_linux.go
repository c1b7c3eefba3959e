package terminal

import (
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
)

// stopSelf stops this process, as the signal does by default. It returns when the
// process was continued, or at once if no process could continue it.
func stopSelf(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	process.Unhear(sig)
	// The signal stops the process before Tgkill returns, because it is sent to this
	// thread.
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}

// Quietly calls do, which may use the terminal as only the foreground may, such as
// to write to it after stty tostop. Otherwise the kernel would stop this process and
// its group.
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
