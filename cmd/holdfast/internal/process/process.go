// Package process is what this very process has to do with signals: which it
// passes on, and how it dies of one.
package process

import (
	"os"
	"os/signal"
	"syscall"
)

// Signals delivers what a command is to be told of, until stop is called. A
// signal that this program was started to ignore, as nohup and a shell's
// background jobs do, stays ignored, for the command too.
func Signals() (received <-chan os.Signal, stop func()) { return listen(forwarded) }

// Notices delivers what concerns a command that runs, but ends no wait for one: a
// new size of the window, and that this process was continued.
func Notices() (received <-chan os.Signal, stop func()) { return listen(notices) }

// Ends delivers what is to end a program that runs no command.
func Ends() (received <-chan os.Signal, stop func()) { return listen(ends) }

var ends = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

func listen(to []os.Signal) (received <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 8)
	for _, sig := range to {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	return c, func() { signal.Stop(c) }
}
