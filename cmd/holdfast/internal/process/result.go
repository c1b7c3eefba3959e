package process

import "syscall"

// Result is how a command ended.
type Result struct {
	// Code is what it exited with, if Signal is 0.
	Code int
	// Signal is what it died of, or 0.
	Signal syscall.Signal
	// Err says that its end could not be learnt.
	Err error
}

// Status is the exit status by which a shell would report the result: the
// command's own, or 128 and the number of the signal.
func (r Result) Status() int {
	if r.Signal != 0 {
		return 128 + int(r.Signal)
	}
	return r.Code
}
