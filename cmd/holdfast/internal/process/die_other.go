//go:build unix && !linux

package process

import "syscall"

func noCore() {}

// Unhear does nothing: there is no way here.
func Unhear(syscall.Signal) {}
