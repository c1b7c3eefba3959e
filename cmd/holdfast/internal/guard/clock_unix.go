//go:build unix

package guard

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clock of deadlines: all processes of a machine read the same one,
// and where the system has one that counts the machine's sleep it is that.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // which every system has
	}
	return time.Duration(ts.Nano())
}
