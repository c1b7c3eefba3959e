package guard

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// succeed starts the successor in place of this process. It returns only if that fails.
func (s *Successor) succeed() error {
	path, err := program()
	if err != nil {
		return err
	}
	input, err := s.input()
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	// A reader of the command's output does not wait for the successor.
	for to, from := range []*os.File{input, null, null} {
		if err := unix.Dup2(int(from.Fd()), to); err != nil {
			return err
		}
	}
	return syscall.Exec(path, s.Args, os.Environ())
}

// input returns a file to read the input from. It is a pipe, because the input may be secret.
func (s *Successor) input() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := syscall.SetNonblock(int(w.Fd()), true); err != nil { // nobody reads yet
		return nil, err
	}
	if len(s.Input) > 0 {
		_, _ = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, len(s.Input)) // it may be large enough already
	}
	if n, err := syscall.Write(int(w.Fd()), s.Input); err != nil || n < len(s.Input) {
		return nil, errors.Join(err, syscall.EMSGSIZE)
	}
	return r, nil
}
