// Package process handles the signals of this process: those that it receives for a
// command, and its death by one.
package process

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// Signals delivers the signals that a command is to get, until stop is called. A
// signal that was ignored when this program started, as by nohup and in a shell's
// background jobs, stays ignored, for the command, too.
func Signals() (received <-chan os.Signal, stop func()) { return listen(forwarded) }

// Ends reports whether the signal, nil or 0 for none, asks a program to end.
func Ends(sig os.Signal) bool {
	return sig == os.Interrupt || sig == syscall.SIGTERM || sig == syscall.SIGHUP || sig == syscall.SIGQUIT
}

// Notices delivers the signals that concern a running command but do not end a wait:
// a new window size, and that this process was continued.
func Notices() (received <-chan os.Signal, stop func()) { return listen(notices) }

// UntilEnded returns a context that ends with the first signal that ends a program without
// a command. Its cause is then an Interruption. Until stop is called, a second signal does
// nothing: timeout(1), for one, sends its signal twice.
func UntilEnded(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	received, ignore := listen([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP})
	go func() {
		select {
		case sig := <-received:
			cancel(Interruption{sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		ignore()
		cancel(nil)
	}
}

// Interruption is the cause of a context that a signal ended.
type Interruption struct{ Signal os.Signal }

func (i Interruption) Error() string { return i.Signal.String() }

// Stops delivers the signals that ask a server to end.
func Stops() (received <-chan os.Signal, stop func()) {
	return listen([]os.Signal{os.Interrupt, syscall.SIGTERM})
}

// Hangups delivers the signal that asks a server to open its files again.
func Hangups() (received <-chan os.Signal, stop func()) { return listen([]os.Signal{syscall.SIGHUP}) }

// Names returns the names of the signals that can be sent to a command.
func Names() []string { return slices.Sorted(maps.Keys(named)) }

// Named returns the signal of that name, with or without SIG before it.
func Named(name string) (syscall.Signal, error) {
	if sig, ok := named[strings.TrimPrefix(strings.ToUpper(name), "SIG")]; ok {
		return sig, nil
	}
	return 0, errors.New("it is one of " + strings.Join(Names(), ", "))
}

func listen(to []os.Signal) (received <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 8)
	for _, sig := range to {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	return c, func() { signal.Stop(c) }
}
