//go:build unix

package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clock of deadlines. All processes of a machine share it, and it
// counts the time that the machine sleeps where the system has such a clock.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // every system has this one
	}
	return time.Duration(ts.Nano())
}
