//go:build !linux && !darwin

package sqlitelock

import "time"

// thisSystem uses the wall clock: when that is set, the store's clock changes, too. It
// does not know the system's file systems.
func thisSystem() system {
	return system{
		clockSource: clockSource{wall: time.Now},
		mount:       func(string) (at, networkFS string) { return "", "" },
	}
}
