//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is a clock that all processes of the machine share and that nobody
// sets.
func monotonic() (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano()), err
}

// processorTime is how long this process has kept processors busy.
func processorTime() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
