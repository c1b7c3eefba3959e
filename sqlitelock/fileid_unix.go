//go:build unix

package sqlitelock

import (
	"io/fs"
	"syscall"
)

// identify returns an ID that no other file has at the same time, and the number of
// the file's names.
func identify(info fs.FileInfo) (id fileID, links uint64) {
	st := info.Sys().(*syscall.Stat_t)
	return fileID{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink) //nolint:unconvert // the types differ between systems
}

// look returns what stands at a path, without following a link. Its errors are those of
// the system: os.Lstat would allocate for what is looked at before each change.
func look(path string) (id fileID, size int64, err error) {
	var st syscall.Stat_t
	for {
		err = syscall.Lstat(path, &st)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return fileID{}, 0, err
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, st.Size, nil //nolint:unconvert // the types differ between systems
}
