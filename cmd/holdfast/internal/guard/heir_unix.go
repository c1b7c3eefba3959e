//go:build unix

package guard

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// succeed starts the heir in place of this process. It returns only if that fails.
func (h *Heir) succeed() error {
	path, err := program()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	fd := int(w.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil { // nobody reads yet
		return err
	}
	if n, err := syscall.Write(fd, h.Input); err != nil || n < len(h.Input) {
		return errors.Join(err, syscall.EMSGSIZE)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	// Whoever waits for the end of the command's output does not wait for the heir.
	for to, from := range []*os.File{r, null, null} {
		if err := unix.Dup2(int(from.Fd()), to); err != nil {
			return err
		}
	}
	return syscall.Exec(path, h.Args, os.Environ())
}
