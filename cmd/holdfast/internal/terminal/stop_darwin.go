package terminal

import (
	"os"
	"os/signal"
	"syscall"
)

// stopSelf stops this process and returns when it was continued. It uses STOP: the
// runtime of Go has no way to restore the default of another signal.
func stopSelf(syscall.Signal) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(os.Getpid(), syscall.SIGSTOP) == nil {
		<-continued
	}
}

var unheard = make(chan os.Signal, 1)

// Quietly calls do, which may use the terminal as only the foreground may, such as
// to write to it after stty tostop. Otherwise the kernel would stop this process and
// its group.
func Quietly(do func()) {
	signal.Ignore(syscall.SIGTTOU)
	// A command would inherit that the signal is ignored, but not that it is caught.
	defer signal.Notify(unheard, syscall.SIGTTOU)
	do()
}
