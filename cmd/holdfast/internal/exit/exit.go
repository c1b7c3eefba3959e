// Package exit has the exit statuses of holdfast and the errors that end it with
// one.
package exit

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// The exit statuses that are holdfast's own. All others of run are the
// command's. 64, 69 and 75 mean what sysexits.h says of them; 126 and 127 are
// what shells, env and timeout exit with.
const (
	Failed        = 1   // something else, such as that the output cannot be written
	Usage         = 64  // nothing was sent to any store
	Store         = 69  // the store cannot be used
	NotAcquired   = 75  // held by others for as long as was waited
	Lost          = 76  // lost while the command ran, which was ended
	NotExecutable = 126 // the command is there but cannot be run
	NotFound      = 127 // there is no such command
	Signaled      = 128 // plus the number of the signal
)

// Error ends the program with a status. Its text, unless it is empty, goes to
// stderr as the one line that says what happened and what to do.
type Error struct {
	Status int
	Text   string
	// Signal is what the program dies of, if it is not 0 and the program can; the
	// status is for when it cannot.
	Signal syscall.Signal
}

func (e *Error) Error() string { return e.Text }

func Errorf(status int, format string, args ...any) error {
	return &Error{Status: status, Text: fmt.Sprintf(format, args...)}
}

// Killed is the end by a signal, as a shell sees it: a loop in a script ends with
// an interrupted command only if it is seen to have died of it.
func Killed(sig os.Signal, text string) error {
	number, _ := sig.(syscall.Signal) // as all of them are
	return &Error{Status: Signaled + int(number), Text: text, Signal: number}
}

// Usagef is the error of a command line that cannot be meant.
func Usagef(format string, args ...any) error { return Errorf(Usage, format, args...) }

// Printed is the error of output that could not be written.
func Printed(err error) error {
	if err == nil {
		return nil
	}
	return Errorf(Failed, "the output could not be written: %v", err)
}

// Status is a flag whose value is an exit status of the user's choice.
type Status int

// String is the flag's value.
func (s *Status) String() string { return strconv.Itoa(int(*s)) }

// Set reads the flag's value.
func (s *Status) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n == 0 {
		return errors.New("an exit status is a number from 1 to 255")
	}
	*s = Status(n)
	return nil
}

// Type is shown in a flag's help where it names no value.
func (*Status) Type() string { return "status" }
