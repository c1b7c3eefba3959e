package guard

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns a file with that content, to be read, which is on no disk. Old kernels
// and some sandboxes have none.
func memoryFile(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("input", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "input")
	if _, err = f.Write(content); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
