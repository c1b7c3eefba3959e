package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// The exit statuses that are holdfast's own. All others of run are the
// command's. 64, 69 and 75 mean what sysexits.h says of them; 126 and 127 are
// what shells, env and timeout exit with.
const (
	statusFailed        = 1   // something else, such as that the output cannot be written
	statusUsage         = 64  // nothing was sent to any store
	statusStore         = 69  // the store cannot be used
	statusNotAcquired   = 75  // held by others for as long as was waited
	statusLost          = 76  // lost while the command ran, which was ended
	statusNotExecutable = 126 // the command is there but cannot be run
	statusNotFound      = 127 // there is no such command
	statusSignal        = 128 // plus the number of the signal
)

// exitError ends the program with a status. Its text, unless it is empty, goes to
// stderr as the one line that says what happened and what to do.
type exitError struct {
	status int
	text   string
	// signal is what the program dies of, if it is not 0 and the program can; the
	// status is for when it cannot.
	signal syscall.Signal
}

func (e *exitError) Error() string { return e.text }

func exitf(status int, format string, args ...any) error {
	return &exitError{status: status, text: fmt.Sprintf(format, args...)}
}

// killed is the end by a signal, as a shell sees it: a loop in a script ends with
// an interrupted command only if it is seen to have died of it.
func killed(sig os.Signal, text string) error {
	number, _ := sig.(syscall.Signal) // as all of them are
	return &exitError{status: statusSignal + int(number), text: text, signal: number}
}

// usagef is the error of a command line that cannot be meant.
func usagef(format string, args ...any) error { return exitf(statusUsage, format, args...) }

// printed is the error of output that could not be written.
func printed(err error) error {
	if err == nil {
		return nil
	}
	return exitf(statusFailed, "the output could not be written: %v", err)
}

// reason is the text of an error in one line, without the prefix that every line
// gets anyway.
func reason(err error) string {
	lines := strings.Split(strings.TrimPrefix(err.Error(), "holdfast: "), "\n")
	return strings.Join(slices.Compact(lines), "; ")
}

// say prints one line of holdfast's own on stderr.
func say(format string, args ...any) {
	line := printable(redact(fmt.Sprintf(format, args...)))
	terminal.Quietly(func() { fmt.Fprintf(os.Stderr, "holdfast: %s\n", line) })
}

// exitStatus is a flag whose value is an exit status of the user's choice.
type exitStatus int

// String is the flag's value.
func (s *exitStatus) String() string { return strconv.Itoa(int(*s)) }

// Set reads the flag's value.
func (s *exitStatus) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n == 0 {
		return errors.New("an exit status is a number from 1 to 255")
	}
	*s = exitStatus(n)
	return nil
}

// Type is shown in a flag's help where it names no value.
func (*exitStatus) Type() string { return "status" }
