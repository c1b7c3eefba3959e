//go:build unix && !linux

package terminal

import (
	"os"
	"os/signal"
	"syscall"
)

// stopSelf stops this process and returns when it was continued. The runtime of Go
// gives no way back to what the signal itself does, once it was heard.
func stopSelf(syscall.Signal) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(os.Getpid(), syscall.SIGSTOP) == nil {
		<-continued
	}
}

var unheard = make(chan os.Signal, 1)

// Quietly does to the terminal what a process in the background may not, such as
// to write to it after stty tostop. It would be stopped for it, with its group.
func Quietly(do func()) {
	signal.Ignore(syscall.SIGTTOU)
	// A signal that is ignored would be ignored by a command too, one that is
	// heard is not.
	defer signal.Notify(unheard, syscall.SIGTTOU)
	do()
}
