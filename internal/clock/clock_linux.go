package clock

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// New returns a clock that counts the suspension of the machine: the monotonic clock plus the
// time by which CLOCK_BOOTTIME, which counts it, has got ahead.
//
// Reading CLOCK_BOOTTIME takes two system calls, many times as long as time.Now. So the clock
// reads it only after the wall clock and the monotonic clock have moved apart, because the
// machine slept or somebody set the wall clock. CLOCK_BOOTTIME then shows which of the two it
// was, and for how long.
func New() func() time.Duration {
	start := time.Now()
	base := max(suspended(), suspended(), suspended())
	var apart, slept atomic.Int64
	apart.Store(start.UnixNano())
	return func() time.Duration {
		now := time.Now()
		mono := now.Sub(start)
		gap := now.UnixNano() - int64(mono)
		if d := gap - apart.Load(); d < -noticeable || d > noticeable {
			raise(&slept, int64(suspended()-base))
			apart.Store(gap)
		}
		return mono + time.Duration(slept.Load())
	}
}

// noticeable is how far the two clocks may move apart unnoticed, in ns.
const noticeable = int64(time.Millisecond)

// raise sets v to n unless it is larger.
func raise(v *atomic.Int64, n int64) {
	for {
		seen := v.Load()
		if n <= seen || v.CompareAndSwap(seen, n) {
			return
		}
	}
}

// From linux/time.h.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended returns how long the machine has slept since it was started. It reads the clock
// that counts sleep first: if the thread is interrupted between the two readings, the result
// is too small, never too large, and the next one is right. It returns 0 if the kernel has no
// such clock.
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
