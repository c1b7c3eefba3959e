// Package guard runs one command and makes sure that no process of the command
// outlives a deadline, even if the program that started it stops or dies.
//
// On Unix a second process, the guard, starts the command and has the deadline.
// The program sends it new deadlines through a socket. The guard sends the command
// TERM some time before the deadline, and KILL at the deadline, or at once when the
// socket closes because the program has died. The guard is the command's parent and,
// on Linux, adopts all its descendants, so that none of them escapes. If the guard
// itself dies, the kernel kills the command (on Linux) and this package the rest.
// If the program dies, the guard becomes its Successor, once nothing of the command lives. The
// code of the guard is in guard_process_unix.go, that of the program in guard_unix.go,
// and what they send each other in message.go.
//
// What the guard cannot find or may not end is told (Unkillable, Strays), or isolated, so that
// one write or one death ends it: in a cgroup (cgroup_linux.go), or in a PID namespace whose
// first process is the guard (isolation_linux.go).
//
// On Windows there is no second process. The program and the command are in a job
// object, which the kernel ends with the program.
//
// This package is not concerned with locks or the terminal.
package guard

import (
	"errors"
	"syscall"
	"time"
)

// Command says what to run.
type Command struct {
	// Path is the executable file; PATH is not searched. A file of no known format
	// is run by sh, as execvp does.
	Path string
	// Args are the arguments. Args[0] is the name of the command.
	Args []string
	// Env is the whole environment. If a variable occurs twice, the last one counts.
	Env []string
	// Deadline is the time on the clock of Now from which on no process of the
	// command is alive.
	Deadline time.Duration
	// KillAfter is the time between TERM and KILL.
	KillAfter time.Duration
	// Lenient lets the command outlive its deadline and the program.
	Lenient bool
	// Foreground makes the command's process group the foreground group of the
	// terminal before the command begins.
	Foreground bool
	// Marks are texts in the environment of the command's processes, and of no others. By
	// them what a killed guard leaves behind is found (on Linux).
	Marks []string
	// Successor is what the guard becomes if the program dies without closing the guard, once
	// nothing of the command lives. Nil: nothing. On Linux only: elsewhere a process of
	// the command may live and not be found.
	Successor *Successor
}

// Successor is this program, started anew with other arguments. Its input may be secret. Where
// the system has no files in memory it is not more than a pipe holds, 64 KiB. The successor writes
// to nobody.
type Successor struct {
	Args  []string // with the name
	Input []byte
}

// ErrLate says that a command was not started because its deadline had passed.
var ErrLate = errors.New("the deadline has passed")

// ErrFell says that the guard was killed before it reported whether it had started the
// command. A command that it had started was killed, too.
var ErrFell = errors.New("the guard was killed")

// Unkillable is a process of the command that the guard cannot end.
type Unkillable struct {
	PID     int
	Program string // its name; empty: not known
	UID     int    // the user whose rights it has; -1: not known
}

// Event is news of the command. Exactly one field is set.
type Event struct {
	// Unkillable is a process that the guard cannot end, the first of its program and user.
	// They are looked for now and then, on Linux.
	Unkillable *Unkillable
	// Stopped is the signal that stopped the command.
	Stopped syscall.Signal
	// Continued says that the command was continued.
	Continued bool
	// Ended is the command's result, in the last event.
	Ended *Result
}

// Result is how a command ended.
type Result struct {
	// Code is the exit status, if Signal is 0.
	Code int
	// Signal is the signal that the command died of, or 0.
	Signal syscall.Signal
	// Cut says that the guard ended the command, or that it ended past its deadline.
	Cut bool
	// Fell says that the guard itself was killed, and the command with it.
	Fell bool
}

// Status returns the exit status that a shell would report: the command's own, or
// 128 plus the number of the signal.
func (r Result) Status() int {
	if r.Signal != 0 {
		return 128 + int(r.Signal)
	}
	return r.Code
}
