package audit

import (
	"errors"
	"os"
	"syscall"
)

const keepSize = 1 // FALLOC_FL_KEEP_SIZE

// keepRoom reserves so much room on the disk behind the end of the file. The error is errFull
// if there is less.
func keepRoom(file *os.File, room int64) error {
	info, err := file.Stat()
	if err != nil {
		return nil //nolint:nilerr // the write that follows says it
	}
	if errors.Is(syscall.Fallocate(int(file.Fd()), keepSize, info.Size(), room), syscall.ENOSPC) {
		return errFull
	}
	return nil // or the file system cannot
}
