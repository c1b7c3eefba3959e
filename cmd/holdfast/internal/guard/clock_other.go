//go:build unix && !linux

package guard

import "golang.org/x/sys/unix"

// On macOS this one counts sleep.
const clock = unix.CLOCK_MONOTONIC
