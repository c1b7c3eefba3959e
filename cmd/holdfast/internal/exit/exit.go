// Package exit has the exit statuses of holdfast, and the errors that lead to them.
package exit

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// The exit statuses that are holdfast's own. All others of run are the command's. 64,
// 69 and 75 are those of sysexits.h; 126 and 127 those of shells, env and timeout.
const (
	Failed        = 1   // something else, such as that the output cannot be written
	Usage         = 64  // nothing was sent to any store
	Store         = 69  // the store cannot be used
	NotAcquired   = 75  // others held the lock for the whole wait
	Lost          = 76  // the lock was lost, and the command was ended
	Overtime      = 124 // the command ran for too long, as timeout has it
	NotExecutable = 126 // the command is there but cannot be run
	NotFound      = 127 // there is no such command
	Signaled      = 128 // plus the number of the signal
)

// Error ends the program with a status. Its text, unless it is empty, is the one line
// on stderr that says what happened and what to do.
type Error struct {
	Status int
	Text   string
	// Signal, unless it is 0, is the signal that the program dies of. If it cannot
	// die of a signal, the status counts.
	Signal syscall.Signal
}

func (e *Error) Error() string { return e.Text }

// Errorf returns an Error with that status and text. Its code is not worth a copy at each
// of 200 calls.
//
//go:noinline
func Errorf(status int, format string, args ...any) error {
	return &Error{Status: status, Text: fmt.Sprintf(format, args...)}
}

// Killed returns the Error for an end by a signal. A shell ends a loop with an
// interrupted command only if the command has died of the signal.
func Killed(sig os.Signal, text string) error {
	number, _ := sig.(syscall.Signal) // all signals are of this type
	return &Error{Status: Signaled + int(number), Text: text, Signal: number}
}

// Usagef returns the Error for a wrong command line. It is not copied either.
//
//go:noinline
func Usagef(format string, args ...any) error { return Errorf(Usage, format, args...) }

// Printed returns the Error for output that could not be written, nil for nil.
func Printed(err error) error {
	if err == nil {
		return nil
	}
	return Errorf(Failed, "the output could not be written: %v", err)
}

// Status is the value of a flag that is an exit status.
type Status struct {
	To    *int
	Least int // 0 for what the caller may take for success
}

// String is the flag's value.
func (s Status) String() string { return strconv.Itoa(*s.To) }

// Set reads the flag's value.
func (s Status) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || int(n) < s.Least {
		return fmt.Errorf("an exit status is a number from %d to 255", s.Least)
	}
	*s.To = int(n)
	return nil
}

// Type names the value in the flag's help.
func (Status) Type() string { return "status" }
