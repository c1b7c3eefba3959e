//go:build unix

package acquire

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// mayDraw reports whether this process may draw on the terminal: it is in the
// foreground, or the terminal is not its controlling one.
func mayDraw(terminal *os.File) bool {
	foreground, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err != nil || foreground == syscall.Getpgrp()
}
