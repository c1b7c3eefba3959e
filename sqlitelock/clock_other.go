//go:build !linux

package sqlitelock

import "time"

// thisSystem uses the wall clock: a step of it is a step of the store's clock.
func thisSystem() system {
	return system{
		clockSource: clockSource{wall: time.Now, boot: func() (string, error) { return "", nil }},
		networkFS:   networkFS,
		hints:       newHints,
	}
}
