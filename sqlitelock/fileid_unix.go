//go:build unix

package sqlitelock

import (
	"io/fs"
	"syscall"
)

// identify returns an ID that no other file has at the same time, and the number of names
// of the file.
func identify(info fs.FileInfo) (id fileID, links uint64) {
	st := info.Sys().(*syscall.Stat_t)
	return idOf(st), uint64(st.Nlink) //nolint:unconvert // the types differ between systems
}

func idOf(st *syscall.Stat_t) fileID {
	return fileID{uint64(st.Dev), uint64(st.Ino)} //nolint:unconvert // the types differ between systems
}

// look returns the ID and the size of the file at a path, without following a link. It is
// called before each change, so it does not use os.Lstat, which allocates.
func look(path string) (id fileID, size int64, err error) {
	var st syscall.Stat_t
	err = syscall.EINTR
	for err == syscall.EINTR {
		err = syscall.Lstat(path, &st)
	}
	if err != nil {
		return fileID{}, 0, err
	}
	return idOf(&st), st.Size, nil
}
