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
	"time"

	"golang.org/x/sys/unix"
)

var (
	forwarded = []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	}
	notices = []os.Signal{syscall.SIGWINCH, syscall.SIGCONT}
	named   = map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	}
)

// Signals delivers the signals that a command is to get, until stop is called. A
// signal that was ignored when this program started, as by nohup and in a shell's
// background jobs, stays ignored, for the command, too.
func Signals() (received <-chan os.Signal, stop func()) { return listen(forwarded) }

// Ends reports whether the signal, nil or 0 for none, asks a program to end.
func Ends(sig os.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP || sig == syscall.SIGQUIT
}

// Notices delivers the signals that concern a running command but do not end a wait:
// a new window size, and that this process was continued.
func Notices() (received <-chan os.Signal, stop func()) { return listen(notices) }

// UntilEnded returns a context that ends with the first signal that ends a program without
// a command. Its cause is then an Interruption. Until stop is called, a second signal does
// nothing: timeout(1), for one, sends its signal twice.
func UntilEnded(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	received, ignore := listen([]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP})
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
	return listen([]os.Signal{syscall.SIGINT, syscall.SIGTERM})
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

// OutlivePipes lets this process outlive the readers of its output: a write to them then
// fails, and what it runs goes on. It does not apply to what this process starts.
func OutlivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

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
