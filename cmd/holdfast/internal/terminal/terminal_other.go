//go:build !unix

package terminal

import (
	"os"
	"syscall"
)

// Terminal stands for none: here commands share the console with their parents.
type Terminal struct{}

// Open returns nil.
func Open() *Terminal { return nil }

// Close does nothing.
func (*Terminal) Close() {}

// Stops delivers nothing.
func (*Terminal) Stops() <-chan os.Signal { return nil }

// Foreground is false.
func (*Terminal) Foreground() bool { return false }

// IsFront is false.
func (*Terminal) IsFront(int) bool { return false }

// Alone is false.
func (*Terminal) Alone() bool { return false }

// Gone is false.
func (*Terminal) Gone() bool { return false }

// IsLeader is false.
func (*Terminal) IsLeader() bool { return false }

// CanLend returns false.
func (*Terminal) CanLend() bool { return false }

// Lend does nothing.
func (*Terminal) Lend(int) {}

// Given does nothing.
func (*Terminal) Given(int) {}

// Lent is false.
func (*Terminal) Lent() bool { return false }

// HasTold is false.
func (*Terminal) HasTold() bool { return false }

// TakeBack does nothing.
func (*Terminal) TakeBack() {}

// Restore does nothing.
func (*Terminal) Restore() {}

// CanSuspend is false.
func (*Terminal) CanSuspend(syscall.Signal) bool { return false }

// Suspend does nothing.
func (*Terminal) Suspend(syscall.Signal, bool) {}

// Wake does nothing.
func (*Terminal) Wake() {}

// Interrupt does nothing.
func (*Terminal) Interrupt(syscall.Signal) {}

// Quietly calls do.
func Quietly(do func()) { do() }

// Key is not a signal: nothing is stopped here.
const Key = syscall.Signal(-2)

// IsWanted is false.
func IsWanted(syscall.Signal) bool { return false }

// IsInterrupt is false.
func IsInterrupt(syscall.Signal) bool { return false }
