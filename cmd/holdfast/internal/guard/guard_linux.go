package guard

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const clock = unix.CLOCK_BOOTTIME

// adoptOrphans makes this process the parent of its orphaned descendants, so that
// they stay its descendants. It reports whether that works: it does since Linux 3.4.
func adoptOrphans() bool {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
}

// rename changes the name of this process for ps and pkill.
func rename(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

// wakeWithoutParent lets the kernel continue this process when its parent dies. It does so
// for orphaned process groups, but only if all threads have stopped by then.
func wakeWithoutParent() { _ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGCONT), 0, 0, 0) }

// dieWithParent lets the kernel kill the process when its parent dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
