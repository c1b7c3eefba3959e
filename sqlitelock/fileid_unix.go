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
