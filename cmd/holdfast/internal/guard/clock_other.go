//go:build unix && !linux

package guard

import "golang.org/x/sys/unix"

// On macOS this clock counts the time that the machine sleeps.
const clock = unix.CLOCK_MONOTONIC
