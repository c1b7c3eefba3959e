package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noCore rules out a core where the limit is not heeded because another program
// receives them.
func noCore() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// Unhear has the kernel act upon the signal, as on programs that do not know it:
// of some the runtime of Go makes a panic, whoever sends them, and some that were
// heard once it drops for ever.
func Unhear(sig syscall.Signal) {
	var action [8]uint64 // all zero is the default; larger than the kernel's struct anywhere
	const maskSize = 8
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, maskSize, 0, 0)
}
