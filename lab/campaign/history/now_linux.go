package history

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time since the start of the machine, the same for all its processes. It goes
// on while a process is stopped, and does not depend on the wall clock.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // every kernel that Go supports has this clock
	}
	return time.Duration(now.Nano())
}
