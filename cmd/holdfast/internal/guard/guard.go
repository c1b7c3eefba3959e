// Package guard runs one command and makes sure that no process of the command
// outlives a deadline, even if the program that started it stops or dies.
//
// A second process, the guard, starts the command and has the deadline. The program
// sends it new deadlines through a socket. The guard is the command's parent and, on Linux,
// adopts all its descendants, so that none of them escapes. A run goes through these phases:
//
//	waiting ── Run ──> running ── main process ends ──> rest ── rest has ended ──> ended
//	                      │ └── by itself: its rest may be a service ──────────────> ended
//	                      │                              │
//	                      └─────── End, deadline ────────┴─> ending ── none lives ─> ended
//
// The rest are the descendants of the main process, once that has ended, in its own session;
// those in another session are detached. The program waits for the rest if the main process was
// told to end by a signal, which the rest then gets, too, or died of one that the program has not
// passed on. In ending, all processes get TERM, and KILL at the deadline.
//
// When the program dies, the socket closes: the guard kills the command and, once nothing of
// it lives, becomes the program's Successor. If the guard itself dies, the kernel kills the
// main process, and the program adopts what is left and kills it; where it cannot find that, as
// on macOS (Finds), it kills the group. The code of the guard is in process.go, that of the
// program in program.go, what they send each other in message.go, and what finds processes in
// tree.go.
//
// What the guard cannot find or may not end is told (Unkillable), or isolated in a PID
// namespace, whose first process is the guard (isolation_linux.go): the kernel ends them all
// when that ends.
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
	// PIDVariables are the variables that get the command's process ID.
	PIDVariables []string
	// Deadline is the time on the clock of Now from which on no process of the
	// command is alive. With Never the command may outlive the program, too.
	Deadline time.Duration
	// KillAfter is the time between TERM and KILL.
	KillAfter time.Duration
	// Foreground makes the command's process group the foreground group of the
	// terminal before the command begins.
	Foreground bool
	// Children says what becomes of the other processes when the main process has ended.
	Children Children
	// Successor is what the guard becomes if the program dies without closing the guard, once
	// nothing of the command lives. Nil: nothing. On Linux only: elsewhere a process of
	// the command may live and not be found.
	Successor *Successor
}

// Never is later than any deadline.
const Never = time.Duration(1<<63 - 1)

// Children is what becomes of a command's processes when its main process has ended.
type Children string

// The rules of Children.
const (
	// LeaveAll lets them live, unless the main process was told to end by a signal or died of
	// one: then the rest is waited for.
	LeaveAll Children = ""
	// WaitAll waits for all of them, also for detached ones.
	WaitAll Children = "wait"
	// EndAll ends all of them.
	EndAll Children = "kill"
)

// Successor is this program, started anew with other arguments. Its input may be secret, and is
// not more than a pipe holds, 1 MiB on most systems. The successor writes to nobody.
type Successor struct {
	Args  []string // with the name
	Input []byte
}

// ErrLate says that a command was not started because its deadline had passed.
var ErrLate = errors.New("the deadline has passed")

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
	// MainEnded is how the main process ended, if the run goes on for the other processes.
	MainEnded *Result
	// Ended is the command's result, in the last event.
	Ended *Result
}

// Result is how a command ended: Code and Signal are the main process's.
type Result struct {
	// Code is the exit status, if Signal is 0.
	Code int
	// Signal is the signal that the command died of, or 0.
	Signal syscall.Signal
	// Cut says that the guard ended the command, or that it ended past its deadline.
	Cut bool
	// Fell says that the guard itself was killed, and the command with it, if it had started.
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
