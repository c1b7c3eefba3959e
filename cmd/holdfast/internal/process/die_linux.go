package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noCore prevents a core. The limit does not, where another program receives cores.
func noCore() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// Unhear restores the kernel's default action for the signal. The runtime of Go does
// not: it panics on some signals, even if another process sends them, and drops
// others forever once they were received.
func Unhear(sig syscall.Signal) {
	var action [8]uint64 // all zero is the default; no kernel's struct is larger
	const maskSize = 8
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, maskSize, 0, 0)
}
