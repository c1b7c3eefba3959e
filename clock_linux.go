package holdfast

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// newClock returns a clock that counts suspension: the monotonic clock plus how
// much CLOCK_BOOTTIME, which counts it, got ahead since.
func newClock() func() time.Duration {
	start := time.Now()
	base := max(suspended(), suspended(), suspended())
	var most atomic.Int64
	return func() time.Duration {
		slept := int64(suspended() - base)
		for {
			seen := most.Load()
			if slept <= seen {
				slept = seen
				break
			}
			if most.CompareAndSwap(seen, slept) {
				break
			}
		}
		return time.Since(start) + time.Duration(slept)
	}
}

// From linux/time.h.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended returns for how long the machine has slept since it was started.
// The clock that counts sleep is read first: when the thread is interrupted
// between the two the result is too small, never too large, and the next one is
// right. 0 where the kernel has no such clock.
func suspended() time.Duration {
	boot, ok := gettime(clockBoottime)
	mono, ok2 := gettime(clockMonotonic)
	if !ok || !ok2 {
		return 0
	}
	return boot - mono
}

func gettime(clock uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
