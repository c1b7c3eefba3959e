//go:build unix

package sqlitelock_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// childRecover is a process that stops while it recovers the log, as after a crash of the
// last process that had the file open. It has all of SQLite's locks in the shared memory,
// whose header says that nobody has recovered it yet. SQLite documents both ("WAL-mode
// file format", "WAL locks"). When it has ended, the next process recovers.
func childRecover(args []string, in *bufio.Scanner, out io.Writer) error {
	shm, err := os.OpenFile(args[0]+"-shm", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 120, Len: 8}
	if err := unix.FcntlFlock(shm.Fd(), unix.F_SETLKW, &lock); err != nil {
		return err
	}
	_, err = shm.WriteAt(make([]byte, 96), 0)
	fmt.Fprintln(out, "recovering")
	in.Scan()
	return errors.Join(err, shm.Close())
}

func init() {
	children["recover"] = childRecover
	cutOffFrom = func(t *testing.T, path string) (restore func()) {
		c := start(t, "recover", path)
		c.hear("recovering")
		return c.end
	}
}
