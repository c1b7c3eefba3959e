package guard

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// clock counts the time that the machine sleeps on macOS.
const clock = unix.CLOCK_MONOTONIC

func startInPIDs() (*Guard, error) { return nil, errors.New("it needs Linux") }

func isolated() bool { return false }

func mountProc() error { return syscall.ENOSYS }

func dropAmbient() error { return syscall.ENOSYS }

func outside(_, pid int) int { return pid }

func (*Successor) succeed() error { return errors.ErrUnsupported }

func adoptOrphans() bool { return false }

func rename(string) {}

func wakeWithoutParent() {}

func dieWithParent(*syscall.SysProcAttr) {}
