//go:build !unix

package terminal

import "syscall"

// Terminal is none: here commands share the console with who starts them.
type Terminal struct{}

// Open returns nil.
func Open() *Terminal { return nil }

// Close does nothing.
func (*Terminal) Close() {}

// Foreground is false.
func (*Terminal) Foreground() bool { return false }

// Gone is false.
func (*Terminal) Gone() bool { return false }

// Lend does nothing.
func (*Terminal) Lend(int) {}

// Given does nothing.
func (*Terminal) Given() {}

// Lent is false.
func (*Terminal) Lent() bool { return false }

// TakeBack does nothing.
func (*Terminal) TakeBack() {}

// Restore does nothing.
func (*Terminal) Restore() {}

// CanSuspend is false.
func (*Terminal) CanSuspend() bool { return false }

// Suspend does nothing.
func (*Terminal) Suspend(syscall.Signal) {}

// IsKey is false.
func IsKey(syscall.Signal) bool { return false }

// IsWanted is false.
func IsWanted(syscall.Signal) bool { return false }
