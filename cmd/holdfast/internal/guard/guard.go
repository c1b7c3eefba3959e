// Package guard runs one command and sees to it that no process of the command
// outlives a deadline, whatever becomes of the program that started it.
//
// On Unix a second process, the guard, starts the command and holds the deadline;
// new deadlines reach it through a socket. The command is asked to end (TERM)
// some time before the deadline and killed at it. It is killed at once when the
// socket closes, which is when the program that holds the other end has died. The
// guard is the command's parent and, on Linux, the reaper of all its descendants,
// so that none of them can leave it. If it is the guard that dies, the kernel
// kills the command (on Linux) and this package the rest.
//
// On Windows there is no second process: a job object, which the kernel ends when
// the program does, holds the program and the command.
//
// What a deadline means, and why it moves, is not this package's affair, nor is
// the terminal.
package guard

import (
	"errors"
	"syscall"
	"time"
)

// Command says what to run.
type Command struct {
	// Path of the executable file. It is not searched for. A file without a known
	// format is given to sh, as execvp does.
	Path string
	// Args are the arguments, Args[0] the name the command is called by.
	Args []string
	// Env is the whole environment. Of a variable that is there twice, the last
	// counts.
	Env []string
	// Deadline is the moment, on the clock of Now, at which no process of the
	// command is alive.
	Deadline time.Duration
	// KillAfter is how long the command has between the request to end and the
	// kill.
	KillAfter time.Duration
	// Lenient: the command may outlive its deadline, and the program.
	Lenient bool
	// Foreground: its process group becomes the foreground group of the terminal
	// before the command begins.
	Foreground bool
}

// ErrLate is the error of a command that was not started because its deadline had
// passed.
var ErrLate = errors.New("the deadline has passed")

// ErrFell is the error of a command that was not started because the guard was
// killed before.
var ErrFell = errors.New("the guard was killed")

// Event is news of the command. Just one of its fields is set.
type Event struct {
	// Stopped by this signal. It is nobody's until someone continues it.
	Stopped syscall.Signal
	// Continued, by whomever.
	Continued bool
	// Ended is the last event.
	Ended *Result
}

// Result is how a command ended.
type Result struct {
	// Code is what it exited with, if Signal is 0.
	Code int
	// Signal is what it died of, or 0.
	Signal syscall.Signal
	// Cut: it was asked to end or killed by the guard, or ended past its deadline.
	Cut bool
	// Fell: the guard itself was killed, and so the command was.
	Fell bool
}

// Status is the exit status by which a shell would report the result: the
// command's own, or 128 and the number of the signal.
func (r Result) Status() int {
	if r.Signal != 0 {
		return 128 + int(r.Signal)
	}
	return r.Code
}
