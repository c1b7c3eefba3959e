//go:build unix

package acquire

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mayDraw reports whether the terminal is this process's to draw on: it is in the
// foreground, or the terminal is not the one that controls it.
func mayDraw(terminal *os.File) bool {
	foreground, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err != nil || foreground == syscall.Getpgrp()
}
