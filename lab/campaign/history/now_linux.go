package history

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is how long the machine has been up, alike for all its processes. It goes on
// while a process stands still, and no wall clock moves it.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // every kernel that Go runs on has it
	}
	return time.Duration(now.Nano())
}
