//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the time of a clock that all processes of the machine share and that nobody
// can set.
func monotonic() (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano()), err
}

// processorTime returns the processor time of this process.
func processorTime() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
