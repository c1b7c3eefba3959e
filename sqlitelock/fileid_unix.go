//go:build unix

package sqlitelock

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// fileID is what tells a file from every other that there is at the same time.
type fileID struct{ dev, ino uint64 }

// identify looks at the file that a name stands for. A zero fileID says that there
// is none. It opens nothing: to close a file would drop SQLite's locks on it.
func identify(path string) (id fileID, links uint64, size int64, err error) {
	var st unix.Stat_t
	for {
		err = unix.Stat(path, &st)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return fileID{}, 0, 0, nil
	case err != nil:
		return fileID{}, 0, 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{uint64(st.Dev), st.Ino}, uint64(st.Nlink), st.Size, nil //nolint:unconvert // the types differ between systems
}
